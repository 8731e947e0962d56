import { CallerName } from "@bowline/domain/caller/CallerName"
import type { Agent } from "@bowline/domain/peer/Agent"
import { EntryId, type Outcome } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { Preferences, ResolvedRequest, TaskMessage } from "@bowline/domain/plan/PlanRequest"
import { MessageId, type MessagePart, type NewMessage } from "@bowline/domain/session/Message"
import { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import {
  type Guard,
  type NewPlan,
  type PlanChange,
  type PlanCommit,
  PlanStore,
  type Progress
} from "@bowline/runtime/unstable/store/PlanStore"
import type { Accepting, StoredEntry } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore, type ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { Duration, Effect, Option, Struct } from "effect"
import assert from "node:assert/strict"
import { LeaseTime } from "./StoreCase.ts"

/** When plans are created, unless a test says otherwise (ISO 8601 in UTC). */
export const at = "2026-01-02T03:04:05.678Z"
/** When plans end, and their deadline: 61,111 ms after `at`. */
export const later = "2026-01-02T03:05:06.789Z"
/** When waits end, unless a test says otherwise. */
export const farOff = "2999-01-02T03:04:05.678Z"
/** The time of a lease. */
export const ttl = Duration.seconds(15)

const spent = {
  steps: 2,
  tool_calls: 3,
  usage: { input_tokens: 11, output_tokens: 7, cached_input_tokens: 5, reasoning_tokens: 1 }
}
/** A progress whose every number differs from the others. */
export const progress: Progress = { model: "scripted/other", ...spent, retries: 4, cost_usd: 0.000_25 }

/** What a commit says of plans whose guard no longer holds. */
export const refused = (...plans: ReadonlyArray<PlanId | undefined>) =>
  new Map(plans.flatMap((plan) => (plan === undefined ? [] : [[plan, "refused" as const]])))

/** The outcome of a plan that answered `42`, with the numbers of `progress`. */
export const completed: Outcome = {
  state: "completed",
  final: { stop_reason: "stop", text: "42", duration_ms: 61_111, ...spent }
}

const id = <A>(make: (uuid: string) => A) => Effect.map(UuidGenerator, (uuid) => make(uuid()))

/** The id of a replica that no other test has. */
export const newReplica = id((uuid): ReplicaId => `replica_${uuid}`)
/** A caller that no other test has. */
export const newOwner = id((uuid) => CallerName.make(`owner ${uuid}`))
/** A caller's own id of a session, new at every use. */
export const newName = id((uuid) => ExternalSessionId.make(`my session ${uuid}`))
/** The id of a task, new at every use. */
export const newTask = id((uuid) => TaskId.make(uuid))
const newMessage = id((uuid) => MessageId.make(`msg_${uuid}`))

/** An agent with one skill, `ask`. Its description holds a NUL, which Postgres cannot store as it is. */
export const agent = (name: string, endpoint = `http://${name}.test/`): Agent => ({
  name,
  endpoint,
  auth: { type: "none" },
  dialect: "auto",
  skills: [{ id: "ask", description: "Knows \u0000 things" }]
})

/** The preferences of a request, with all defaults filled in. */
export const preferences: Preferences = {
  timeout_ms: 1_800_000,
  tool_timeout_ms: 600_000,
  max_steps: 25,
  max_hops: 5,
  max_tool_calls: 200,
  response_format: "text",
  on_disconnect: "cancel",
  on_busy: "queue",
  approval: "sensitive",
  wait_timeout_ms: 86_400_000,
  on_input_required: "end"
}

/** What a test may choose of a plan. */
export interface GivenPlan extends Partial<
  Pick<
    NewPlan,
    | "new_session_id"
    | "messages"
    | "storedRequest"
    | "echo"
    | "replaces"
    | "route"
    | "replica"
    | "idempotency"
    | "leaseTtl"
    | "model"
    | "cost_usd"
    | "webhooks"
    | "filesQuota"
    | "firing"
    | "follows"
  >
> {
  readonly owner?: CallerName
  readonly external_session_id?: ExternalSessionId | null
  readonly agents?: ResolvedRequest["agents"]
  readonly prior_summary?: string
  readonly session_ttl_ms?: number
  readonly preset?: string
  readonly preferences?: Preferences
  readonly question?: string
  readonly question_parts?: ResolvedRequest["question_parts"]
  readonly metadata?: Readonly<Record<string, string>>
  readonly task_message?: TaskMessage
  readonly asker?: ResolvedRequest["asker"]
  readonly created_at?: string
  readonly deadline?: number
}

/** A plan to create. Unless the test chooses otherwise, it has its own owner and replica, and a new session without a name. */
export const newPlan = Effect.fnUntraced(function* (given: GivenPlan = {}) {
  const { owner, external_session_id = null, agents = [], prior_summary = "", created_at = at, ...others } = given
  const request: ResolvedRequest = {
    question: given.question ?? "What is the answer?",
    ...(given.question_parts !== undefined && { question_parts: given.question_parts }),
    ...(external_session_id === null ? {} : { session_id: external_session_id }),
    agents,
    mcp_servers: [],
    tools: [],
    history: [],
    ...(given.session_ttl_ms !== undefined && { session_ttl_ms: given.session_ttl_ms }),
    ...(given.preset !== undefined && { preset: given.preset }),
    ...(given.asker !== undefined && { asker: given.asker }),
    ...(given.task_message !== undefined && { task_message: given.task_message }),
    ...(prior_summary === "" ? {} : { prior_summary }),
    metadata: given.metadata ?? { ticket: "7" },
    preferences: given.preferences ?? preferences
  }
  const uuid = yield* UuidGenerator
  const plan: NewPlan = {
    plan_id: PlanId.make(`plan_${uuid()}`),
    caller: owner ?? (yield* newOwner),
    request,
    model: "scripted/model",
    cost_usd: 0,
    route: { hops: 1, via: ["gateway"], trace: { traceparent: "00-trace-span-01", tracestate: "a=1" } },
    createdAt: Date.parse(created_at),
    deadline: Date.parse(later),
    new_session_id: SessionId.make(`session_${uuid()}`),
    messages: [],
    webhooks: given.webhooks ?? [],
    echo: null,
    replaces: false,
    storedRequest: { request: { question: "What is the \u0000 answer?" }, secrets: "encrypted" },
    replica: yield* newReplica,
    idempotency: null,
    leaseTtl: undefined,
    ...others
  }
  return plan
})

/** The change that appends a message to the history. */
export const message = Effect.fnUntraced(function* (role: NewMessage["role"], ...parts: ReadonlyArray<MessagePart>) {
  const change: PlanChange = { _tag: "MessageAppended", message: { message_id: yield* newMessage, role, parts }, at }
  return change
})

/** The same for a text of the user. */
export const appended = (text: string) => message("user", { type: "text", text })

/** A call of a skill. */
interface Called {
  readonly agent: string
  readonly endpoint: string
  readonly skill: string
}

/** The change that starts a task, as a call of `called` or of no skill. */
export const started = (
  task_id: TaskId,
  tool: string,
  called?: Called
): Extract<PlanChange, { readonly _tag: "TaskStarted" }> => ({
  _tag: "TaskStarted",
  task_id,
  tool,
  kind: "peer",
  agent: called?.agent ?? null,
  endpoint: called?.endpoint ?? null,
  skill: called?.skill ?? null,
  input: { question: "\u0000" },
  state: "running",
  at
})

/** A stored plan, and the guard of the writes to it. */
export interface Stored {
  readonly plan: NewPlan
  readonly session_id: SessionId
  readonly guard: Guard
}

/** Creates a plan, which is then queued in the store. */
export const create = Effect.fnUntraced(function* (given: GivenPlan = {}, maxQueue: number = 32) {
  const plan = yield* newPlan(given)
  const { session_id } = yield* (yield* PlanStore).create(plan, maxQueue)
  const stored: Stored = { plan, session_id, guard: { _tag: "Queued", replica: plan.replica, fence: 0 } }
  return stored
})

/** A row of events, stored at `at`. `payload` is the text of a JSON object. */
export const row = (seq: number, event: PlanEvent["event"], payload = "{}", count = 1): EventRow => ({
  seq,
  at,
  count,
  event,
  payload
})

/** The commit that writes these changes and events to a stored plan. */
export const commitOf = (
  { plan, session_id, guard }: Stored,
  changes: ReadonlyArray<PlanChange>,
  events: ReadonlyArray<EventRow> = []
): PlanCommit => ({ plan_id: plan.plan_id, session_id, guard, changes, events })

/** Writes to one plan, which is expected to be accepted. */
export const write = Effect.fnUntraced(function* (
  stored: Stored,
  changes: ReadonlyArray<PlanChange>,
  events: ReadonlyArray<EventRow> = []
) {
  const refused = yield* (yield* PlanStore).commit([commitOf(stored, changes, events)])
  assert.deepEqual(refused, new Map())
})

/** Acquires the session's lease, which is expected to be free, and returns its fence. */
export const acquire = Effect.fnUntraced(function* (session: SessionId, replica: ReplicaId) {
  const fence = yield* (yield* LeaseStore).acquire(session, replica, ttl)
  assert(Option.isSome(fence))
  return fence.value
})

/** Acquires the session for the plan, which is then `running`. */
export const hold = Effect.fnUntraced(function* (stored: Stored) {
  const fence = yield* acquire(stored.session_id, stored.plan.replica)
  const held: Stored & { readonly fence: number } = { ...stored, guard: { _tag: "Held", fence }, fence }
  yield* write(held, [{ _tag: "Held", fence }])
  return held
})

/** Creates a plan that runs: it holds the lease of its session. */
export const createHeld = (given?: GivenPlan) => Effect.flatMap(create(given), hold)

/** The change that ends a plan. */
export const settled = (outcome: Outcome = completed, at: string = later): PlanChange => ({
  _tag: "Settled",
  outcome,
  progress,
  at
})

/** Writes the end of a plan. The session's lease stays held. */
export const settle = (stored: Stored, outcome?: Outcome) => write(stored, [settled(outcome)])

/** Ends the plan, and releases its session. */
export const finish = Effect.fnUntraced(function* (held: Stored & { readonly fence: number }) {
  yield* settle(held)
  yield* (yield* LeaseStore).release(held.session_id, held.fence)
})

/** Lets the time of a lease pass, so that every replica counts as dead. */
export const abandon = Effect.flatMap(LeaseTime, ({ advance }) => advance(ttl))

/** Has the replica take over all plans that nobody runs, and returns this one, which is expected to be among them. */
export const takeOver = Effect.fnUntraced(function* ({ plan, session_id }: Stored, replica: ReplicaId) {
  const taken = yield* (yield* PlanStore).takeOver(replica, ttl, 10_000)
  const abandoned = taken.find((one) => one.plan.plan_id === plan.plan_id)
  assert(abandoned !== undefined)
  return { plan, session_id, guard: abandoned.guard, fence: abandoned.guard.fence, abandoned }
})

/** The error of the effect; undefined if it succeeds. */
export const failureOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<E | undefined, never, R> =>
  Effect.match(effect, { onFailure: (error) => error, onSuccess: () => undefined })

/** The plan as its owner reads it. */
export const get = Effect.fnUntraced(function* ({ plan }: Stored) {
  return yield* (yield* PlanStore).get(plan.caller, plan.plan_id)
})

/** The same without its request. */
export const factsOf = (stored: Stored) => Effect.map(get(stored), Struct.omit(["request"]))

/** At most `limit` rows of the plan's events, from the event `after + 1` on. */
export const eventsOf = Effect.fnUntraced(function* ({ plan }: Stored, after: number = 0, limit: number = 100) {
  return yield* (yield* PlanStore).events(plan.plan_id, after, limit)
})

/** All rows of the plan's events, page by page. */
export const rowsOf = Effect.fnUntraced(function* (stored: Stored) {
  const rows: Array<EventRow> = []
  for (;;) {
    const { count, seq } = rows.at(-1) ?? { seq: 0, count: 1 }
    const page = yield* eventsOf(stored, seq + count - 1, 500)
    if (page.length === 0) return rows
    rows.push(...page)
  }
})

type WaitOpened = Extract<PlanChange, { readonly _tag: "WaitOpened" }>

/** A call of `rigger_ask` waits for a decision, or for what is given. */
export const waitOpened = (task_id: TaskId, given: Partial<WaitOpened> = {}): WaitOpened => ({
  _tag: "WaitOpened",
  task_id,
  kind: "approval",
  round: 1,
  tool: "rigger_ask",
  agent: "rigger \u0000",
  input: { question: "\u0000" },
  why: "sensitive",
  schema: null,
  message: null,
  data: null,
  url: null,
  expires_at: farOff,
  tool_digest: null,
  known_tool: null,
  mark: null,
  spent_ms: 0,
  ...given
})

/** The rest of the time of a plan that is `parked`, in milliseconds. */
export const parkedLeft = 60_000

/** The changes that park a plan, and release its session. */
export const parked = (
  until: string | null = farOff,
  given = preferences,
  needsReader = given.on_disconnect === "cancel"
): ReadonlyArray<PlanChange> => [
  { _tag: "Progressed", stage: "approval", progress },
  { _tag: "Parked", leftMs: parkedLeft, until, preferences: given, needsReader },
  { _tag: "Released" }
]

/** An entry for a plan, as any caller may send it, or the one who owns the plan. */
export const accepting = Effect.fnUntraced(function* (plan_id: PlanId, entry: StoredEntry, owner?: CallerName) {
  const entry_id = yield* id((uuid) => EntryId.make(`entry_${uuid}`))
  return { plan_id, entry_id, by: owner ?? (yield* newOwner), owner, entry } satisfies Accepting
})
