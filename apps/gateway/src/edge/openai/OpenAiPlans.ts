import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import { type Asked, Plans } from "@bowline/runtime/plan/Plans"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import { find, refusedOf } from "@bowline/runtime/unstable/provider/ModelTable"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import { notLast, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Effect, Schema, Struct } from "effect"
import type { Headers } from "effect/http"
import type { ProviderSettings } from "../../config/file/ProviderSettings.ts"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { invalid, Refused } from "../../http/Refusals.ts"
import * as ClientResults from "../leg/ClientResults.ts"
import * as ToldHistory from "../question/ToldHistory.ts"
import * as SdkRetries from "./SdkRetries.ts"

const gatewayModel = "bowline"

/** The preset that a model stands for, as a request names it. */
export const presetOf = (model: string): Pick<AskRequest, "preset"> =>
  model === gatewayModel ? {} : { preset: model.slice(gatewayModel.length + 1) }

const modelOf = (preset: string): string => (preset === defaultPreset ? gatewayModel : `${gatewayModel}/${preset}`)

const printable = "Expected 1..200 printable ASCII characters"
const isSessionId = Schema.is(ExternalSessionId)
const isKey = (key: string): boolean => /^[\x20-\x7e]{1,200}$/.test(key)

/** The session that the headers name. A chat UI asks for titles and tags in the background, with the id of the chat: those are not streamed. */
const sessionOf = (headers: Headers.Headers, isStreamed: boolean) => {
  const own = "x-bowline-session"
  const name = headers[own] === undefined && isStreamed ? "x-openwebui-chat-id" : own
  const session = headers[name]
  if (session === undefined || isSessionId(session)) return Effect.succeed(session)
  return Effect.fail(invalid([{ path: name, message: printable }]))
}

/** As many fields as a header can hold, in characters that it may have. */
export const listed = (names: ReadonlyArray<string>): string =>
  names
    .slice(0, 32)
    .map((name) => encodeURIComponent(name.slice(0, 64).toWellFormed()).replaceAll(/%5B|%5D/g, decodeURIComponent))
    .join(", ")

/** What a wire does not have of a sampling: its adapter leaves it out. */
const lacking: Readonly<Record<ProviderSettings["wire"], ReadonlyArray<string>>> = {
  chat: [],
  responses: ["stop", "seed"],
  messages: ["seed", "reasoning_effort"]
}

/** A request of a client, read as a plan. */
export interface Asking {
  readonly headers: Headers.Headers
  readonly route: Route
  /** The body, as it was sent. */
  readonly body: unknown
  readonly model: string
  readonly isStreamed: boolean
  /** What it brings to a plan that waits for its client. */
  readonly brought?: ClientResults.Brought | undefined
  /** Without its preset. It has a session if the body names one. */
  readonly request: AskRequest
  /** How long a session is kept that nobody has named; undefined if as long as any other. */
  readonly session_ttl_ms: number | undefined
  /** See `Asked`. */
  readonly leavesNothing?: boolean
  /** A plan that is over: the request goes on behind it, whatever its session has heard since. */
  readonly follows?: Pick<Plan, "plan_id" | "session_id"> | undefined
  /** Fields that change nothing. */
  readonly ignored: ReadonlyArray<string>
  /** See `Asked`. */
  readonly echo?: (request: PlanRequest) => Schema.Json
  /** What is wrong with the plan, under the names of the body. */
  readonly renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
}

const isGone = new InvalidRequest({ issues: [{ path: ["follows"], message: "There is no such response" }] })

/** Whether a request may have come before. */
export const comesAgain = (headers: Headers.Headers): boolean =>
  headers["idempotency-key"] !== undefined || Number(headers["x-stainless-retry-count"]) > 0

/** Forgets a plan for a caller that deletes it: with its session, if nothing else is in that and no caller has named it. */
export const makeForget = Effect.gen(function* () {
  const plans = yield* Plans
  const sessions = yield* Sessions
  const store = yield* PlanStore
  return Effect.fnUntraced(function* (caller: CallerName, plan: PlanId) {
    const { external_session_id, session_id } = yield* plans.cancel(caller, plan)
    const { items } = yield* plans.list(caller, { session: session_id }, { limit: 2 })
    if (external_session_id === null && items.length === 1) return yield* sessions.delete(caller, session_id)
    yield* store.setEcho(plan, null)
  })
})

/** Finds models, and starts plans for clients of OpenAI's API. */
export const make = Effect.gen(function* () {
  const config = yield* GatewayConfig
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const results = yield* ClientResults.make
  const startTold = yield* ToldHistory.make
  const retries = SdkRetries.make({ plans, streams, store: yield* PlanStore })
  const branchBehind = yield* Forks.makeBranch

  /** What the caller may ask: the gateway itself, always, and presets. */
  const models = Effect.map(Effect.flatMap(Caller, plans.presets), (presets) => [
    gatewayModel,
    ...presets.flatMap(({ name }) => (name === defaultPreset ? [] : [modelOf(name)]))
  ])

  const expectModel = Effect.fnUntraced(function* (id: string) {
    if ((yield* models).includes(id)) return
    const detail = `There is no model ${JSON.stringify(id.slice(0, 200))}: GET /v1/models lists them`
    return yield* new Refused({ code: "model_not_found", detail })
  })

  /** The fields of the body that the model of the plan refuses, or its wire does not have. A model that takes its place may refuse others. */
  const refused = Effect.fnUntraced(function* ({ model: asked, renamed, request }: Asking) {
    const { preferences, sampling } = request
    if (sampling === undefined) return []
    const preset = (yield* Effect.flatMap(Caller, plans.presets)).find(({ name }) => modelOf(name) === asked)
    const model = preferences.model ?? preset?.preferences.model ?? config.plans.model
    const wire = config.providers.find(({ name }) => model.startsWith(`${name}/`))?.wire ?? "chat"
    const refused = [...lacking[wire], ...refusedOf(sampling, find(model, config.plans.models()))]
    const fields = Object.keys(sampling).filter((field) => refused.includes(field))
    return renamed(fields.map((field) => ({ path: `sampling.${field}`, message: "" }))).map(({ path }) => path)
  })

  return {
    models,
    expectModel,
    /** The plan, how to read it, and the headers of its answer. `mayJoin` says whether an earlier request may have started it. */
    start: Effect.fnUntraced(function* (asking: Asking) {
      const { body, echo, follows, headers, isStreamed, leavesNothing, model, renamed, route, session_ttl_ms } = asking
      yield* expectModel(model)
      const session = asking.request.session_id ?? (yield* sessionOf(headers, isStreamed))
      const key = headers["idempotency-key"]
      if (key !== undefined && !isKey(key)) return yield* invalid([{ path: "idempotency-key", message: printable }])
      const count = headers["x-stainless-retry-count"]
      const request = {
        ...asking.request,
        ...presetOf(model),
        ...(session !== undefined && { session_id: session }),
        ...(session === undefined && session_ttl_ms !== undefined && { session_ttl_ms })
      }
      const asked: Omit<Asked, "request"> = {
        caller: yield* Caller,
        route,
        leavesNothing,
        idempotency: key === undefined ? undefined : idempotency(key, body)
      }
      const begin = (request: PlanRequest, more?: Pick<Asked, "follows" | "told">) =>
        retries.start({ ...asked, ...more, request, echo: echo?.(request) }, { count, body, session })
      /** The same in a session of its own, which begins with what was said up to the end of the plan. */
      const branch = ({ plan_id }: Pick<Plan, "plan_id">, request: PlanRequest) =>
        branchBehind(asked.caller, plan_id).pipe(
          Effect.catchTag("NotFound", () => Effect.fail(isGone)),
          Effect.flatMap(({ prior_summary, told }) => {
            const alone = { ...Struct.omit(request, ["session_id"]), history: [] }
            const summaries = [prior_summary, request.prior_summary ?? ""].filter((text) => text !== "")
            return begin({ ...alone, ...(summaries.length > 0 && { prior_summary: summaries.join("\n\n") }) }, { told })
          })
        )
      const start = (request: PlanRequest) => {
        if (follows === undefined) return begin(request)
        if (leavesNothing === true) return branch(follows, request)
        return Effect.catchTag(begin(request, { follows: follows.plan_id }), "InvalidRequest", (refusal) =>
          refusal === notLast ? branch(follows, request) : Effect.fail(refusal)
        )
      }
      const mayJoin = comesAgain(headers)
      const resuming = { isAgain: mayJoin, renamed }
      const resumed = asking.brought && (yield* results.resume(asked.caller, asking.brought, resuming))
      const ignored = [...(yield* refused(asking)), ...asking.ignored]
      const reading =
        resumed !== undefined
          ? yield* streams.read(asked.caller, resumed.plan_id, 0)
          : yield* startTold(asked.caller, request, start, renamed)
      const isBranch = follows !== undefined && follows.session_id !== reading.session_id
      return {
        ...reading,
        /** The calls whose results it goes on with. */
        brought: resumed === undefined ? [] : (asking.brought?.results ?? []).map(({ task_id }) => task_id),
        mayJoin,
        headers: {
          "x-bowline-plan-id": reading.plan_id,
          "x-bowline-session": session === undefined || isBranch ? reading.session_id : session,
          ...(ignored.length > 0 && { "x-bowline-ignored": listed(ignored) })
        }
      }
    })
  }
})
export type OpenAiPlans = Effect.Success<typeof make>
