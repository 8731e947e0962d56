import type { WokenBy } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { MessageId, type NewMessage } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { textOf } from "@bowline/domain/unstable/file/QuestionPart"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect, Option, type Schema, Struct } from "effect"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Preset } from "../config/Presets.ts"
import type { SessionLock } from "../lock/SessionLock.ts"
import type { PlanRun } from "../planner/PlanRun.ts"
import type { Resumed } from "../planner/Resumption.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { type Idempotency, keptFor } from "../store/Idempotency.ts"
import type { PlanFrame } from "../store/EventRow.ts"
import { type InboxContent, partsOf, type StoredText } from "../store/InboxStore.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import * as PlanGist from "../store/PlanGist.ts"
import { type Guard, type NewPlan, type PlanStore, questionId } from "../store/PlanStore.ts"
import type { NewWebhook } from "../store/PushStore.ts"
import type { NewFiring } from "../store/ScheduleStore.ts"
import type { Head } from "../stream/Journal.ts"
import type { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

/** A stored plan that nobody runs yet. */
export interface Ready extends PlanStart {
  readonly preset: Preset
  readonly session_id: SessionId
  /** Its deadline, in milliseconds of this process's `Monotonic` clock. */
  readonly endsAt: number
  /** The guard of its next write. If it is `Held`, the session's lease came with the plan. */
  readonly guard: Guard
  /** Its last event, and those of the last ones that need not be read from the store. */
  readonly head: Head
  readonly recent: ReadonlyArray<PlanFrame>
  /** What it has come to so far; undefined if that is not known. */
  readonly gist: PlanGist.PlanGist | undefined
  /** What was said to it, as far as it is known; undefined of a plan that was just created. */
  readonly inbox: InboxContent | undefined
  readonly resumed: Resumed | undefined
  /** What has woken it, if it was parked, and its readers have not been told. */
  readonly wokenBy?: WokenBy | undefined
  /** Whether the session has neither a history nor a summary. */
  readonly isEmpty: boolean
  /** How long the plan runs without a reader before it counts as unread; for a plan whose readers do not know yet that it is here. */
  readonly awaited: Duration.Input | undefined
}

/** What plans are stored with. */
export interface Parts {
  readonly store: PlanStore["Service"]
  readonly config: PlansConfig["Service"]
  readonly secretKey: typeof SecretKey.Service
  readonly lock: SessionLock["Service"]
  readonly uuid: () => string
}

/** What is stored with a plan besides, and never changes. */
export interface Kept {
  /** The request as it came: the JSON of a `PlanRequest`. */
  readonly sent: unknown
  readonly idempotency?: Idempotency | undefined
  readonly firing?: NewFiring | undefined
  readonly echo?: Schema.Json | undefined
  /** See `NewPlan`. */
  readonly replaces: boolean
  /** Who is told of it. */
  readonly webhooks?: ReadonlyArray<NewWebhook> | undefined
  /** The first messages of a new session, in place of the request's `history`. */
  readonly told?: ReadonlyArray<ToldMessage> | undefined
  /** See `NewPlan`. */
  readonly follows?: PlanId | undefined
}

/** A message that a new session begins with. */
export interface ToldMessage extends Pick<NewMessage, "role" | "parts"> {
  /** Whether it asks the question of the plan, which is not asked again then. */
  readonly isQuestion?: true
}

/** What a plan starts with, its preset included. */
export type Start = Pick<Ready, keyof PlanStart | "preset" | "endsAt">

const toldBy = ({ history }: PlanRequest): ReadonlyArray<ToldMessage> =>
  history.map(({ content, parts, role }) => ({ role, parts: parts ?? [{ type: "text", text: content }] }))

/** A plan as it is given to the store. */
export const toStore = (
  { config, lock, secretKey, store, uuid }: Parts,
  start: Start,
  { echo = null, firing, follows, idempotency, replaces, sent, told = toldBy(start.request), webhooks = [] }: Kept
): NewPlan => {
  const {
    plan_id,
    createdAt,
    request: { asker }
  } = start
  const key = config.resume && store.isDurable ? secretKey : Option.none()
  return {
    ...Struct.omit(start, ["preset", "endsAt"]),
    replica: lock.replica,
    leaseTtl: lock.leaseTtl(),
    new_session_id: SessionId.make(`session_${uuid()}`),
    messages: told.map(({ isQuestion, role, parts }) => ({
      message_id: isQuestion === true ? questionId(plan_id) : MessageId.make(`msg_${uuid()}`),
      role,
      parts
    })),
    storedRequest: StoredRequest.store(asker === undefined ? sent : Object.assign({}, sent, { asker }), plan_id, key),
    echo,
    replaces,
    webhooks,
    firing,
    follows,
    idempotency:
      idempotency === undefined
        ? null
        : { ...idempotency, expires_at: fromMillis(createdAt + Duration.toMillis(keptFor)) }
  }
}

/** How long a plan that nobody has asked for by itself runs before it has a reader. */
const readWithin = "60 seconds"

/** How many plans in a row begin with what the plan before could not take. */
export const maxMoves = 10

/** Several texts are one question. */
const questionOf = (texts: ReadonlyArray<StoredText>) => {
  const question_parts = texts.flatMap(partsOf)
  const question = textOf(question_parts)
  return question_parts.some(({ type }) => type === "file") ? { question, question_parts } : { question }
}

/**
 * A plan of the same session that asks what `run` was told too late, with the same agents, servers, tools, preset and preferences. It neither
 * refuses to wait for the plans that are there already, nor ends them: its text was accepted.
 */
export const continuing = Effect.fnUntraced(function* (parts: Parts, run: PlanRun, texts: ReadonlyArray<StoredText>) {
  const { caller, preset, request: before, route, session_id } = run.given
  const { call: _, prior_summary: __, task_message: ___, webhooks: ____, question_parts: _____, ...request } = before
  const clock = yield* Clock.Clock
  const createdAt = clock.currentTimeMillisUnsafe()
  const preferences = { ...request.preferences, on_busy: "queue" as const }
  const { timeout_ms } = preferences
  const model = preferences.model ?? parts.config.model
  const asked = { ...request, preferences, session_id, history: [], ...questionOf(texts) }
  const start: Start = {
    plan_id: PlanId.make(`plan_${parts.uuid()}`),
    caller,
    request: asked,
    preset,
    model,
    cost_usd: ModelLimits.of(parts.config, model).facts?.price === undefined ? null : 0,
    route,
    createdAt,
    deadline: createdAt + timeout_ms,
    endsAt: Monotonic.millis(clock) + timeout_ms
  }
  // The plan before has the session until its end is stored.
  const plan = {
    ...toStore(parts, start, { sent: StoredRequest.written(asked), replaces: false }),
    leaseTtl: undefined
  }
  const at = fromMillis(createdAt)
  const ready: Ready = {
    ...start,
    session_id,
    guard: { _tag: "Queued", replica: plan.replica, fence: 0 },
    head: { seq: 1, at },
    recent: [],
    gist: PlanGist.upTo(1),
    inbox: undefined,
    resumed: undefined,
    isEmpty: false,
    awaited: readWithin
  }
  return { plan, ready, entries: texts.map(({ entry_id }) => entry_id) }
})
