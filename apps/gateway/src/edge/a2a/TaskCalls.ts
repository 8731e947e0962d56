import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { Metadata, ServedTask } from "@bowline/a2a/unstable/server/ServedTask"
import { decodeQuery, decodeTask, isStorableTime } from "@bowline/a2a/unstable/server/TaskQuery"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Sessions } from "@bowline/runtime/plan/Sessions"
import type { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { isOver, type TaskCursor, type TaskSummary } from "@bowline/runtime/unstable/store/TaskStore"
import { Effect, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { HttpServerRequest } from "effect/http"
import type { Binding } from "./Binding.ts"
import * as TaskEvents from "./TaskEvents.ts"
import { notFound, open, type Services, tell } from "./TaskReader.ts"

const isPlanId = Schema.is(PlanId)

/** The id of a task. A text that is none is not found, like an unknown id. */
export const taskId = (id: string) => (isPlanId(id) ? Effect.succeed(id) : Effect.fail(notFound(id)))

/** What is wrong with parameters, each named. */
export const decodeParams = <A>(decoded: Result.Result<A, Schema.SchemaError>): Effect.Effect<A, A2aError> =>
  Effect.mapError(Effect.fromResult(decoded), (error) => invalidParams(fromSchema(error)))

/** The task with the last messages of its history, or with all. */
export const withHistory = (task: ServedTask, length: number | undefined): ServedTask =>
  length === undefined ? task : { ...task, history: length === 0 ? [] : task.history.slice(-length) }

const unsupported = (message: string) => new A2aError({ error: "UnsupportedOperation", message })

/** The task of this id as its plans' rows tell it, and those. */
const find = Effect.fnUntraced(function* (services: Services, caller: CallerName, id: string) {
  const task_id = yield* taskId(id)
  return (yield* tell(services, caller, [task_id])).get(task_id) ?? (yield* notFound(id))
})

export const get = Effect.fnUntraced(function* (
  services: Services,
  caller: CallerName,
  binding: Binding,
  params: unknown
) {
  const { historyLength, id } = yield* decodeParams(decodeTask(params))
  const { task } = yield* find(services, caller, id)
  return binding.json.task(withHistory(task, historyLength ?? undefined))
})

/** Cancels the plans of the task that are not over, or what waits for its client. A task that was cancelled already is answered as it is. */
export const cancel = Effect.fnUntraced(function* (
  services: Services,
  changes: Sessions["Service"],
  caller: CallerName,
  binding: Binding,
  params: unknown
) {
  const { id } = yield* decodeParams(decodeTask(params))
  const asked = yield* find(services, caller, id)
  // The last one first: the others then have no successor that would run meanwhile.
  const running = asked.chain.filter(({ plan }) => !isSettled(plan)).toReversed()
  for (const { plan } of running) yield* services.plans.cancel(caller, plan.plan_id)
  const found = running.length === 0 ? asked : yield* find(services, caller, id)
  const { plan, task_id } = found.last
  const isLeft = !isOver(found.task.status.standing) && isSettled(plan)
  if (isLeft) yield* changes.cancelTask(caller, task_id, plan)
  const { task } = isLeft ? yield* find(services, caller, id) : found
  const { standing } = task.status
  if (standing === "canceled") return binding.json.task(task)
  return yield* new A2aError({
    error: "TaskNotCancelable",
    message: `The task is ${standing}: nothing runs any more`
  })
})

/**
 * Follows a task: from its snapshot, or behind the event that the client has seen last. If it waits for its client, and the client has
 * seen that, it is followed until it is over or waits again.
 */
export const subscribe = Effect.fnUntraced(function* (
  services: Services,
  caller: CallerName,
  binding: Binding,
  params: unknown,
  request: HttpServerRequest.HttpServerRequest
) {
  const after = request.headers["last-event-id"]
  const { id } = yield* decodeParams(decodeTask(params))
  const opened = yield* open(services, caller, yield* taskId(id), after === undefined ? {} : { after })
  const { fold, missed } = opened
  if (isOver(fold.standing) && missed.length === 0) {
    return yield* unsupported(`The task is over: it is ${fold.standing}`)
  }
  return yield* TaskEvents.respond(services, binding, opened, request, {
    comesBack: after !== undefined,
    isPatient: missed.length === 0
  })
})

const Token = Schema.fromJsonString(Schema.Tuple([Schema.String, PlanId]))
const decodeToken = Schema.decodeUnknownOption(Token)

const tokenOf = ({ status_at, task_id }: TaskCursor): string => Base64Url.encode(JSON.stringify([status_at, task_id]))

const cursorOf = (token: string): TaskCursor | undefined =>
  Result.getSuccess(Base64Url.decodeString(token)).pipe(
    Option.flatMap(decodeToken),
    Option.filter(([status_at]) => isStorableTime(status_at)),
    Option.map(([status_at, task_id]) => ({ status_at: fromMillis(Date.parse(status_at)), task_id })),
    Option.getOrUndefined
  )

/** A task as its newest plan alone shows it. */
const briefOf = ({ plan, standing, status_at, task_id }: TaskSummary): ServedTask => ({
  id: task_id,
  contextId: plan.external_session_id ?? plan.session_id,
  status: { standing, timestamp: status_at },
  artifacts: [],
  history: [],
  metadata: { bowline: { plan_id: plan.plan_id } }
})

/** The caller's tasks, the newest status first. Their artifacts and histories cost a second statement: they come when they are asked for. */
export const list = Effect.fnUntraced(function* (
  services: Services,
  sessions: SessionStore["Service"],
  caller: CallerName,
  { json }: Binding,
  params: unknown
) {
  const query = yield* decodeParams(decodeQuery(params))
  const { contextId, historyLength = 0, includesArtifacts, pageSize, pageToken, since, standing } = query
  const cursor = pageToken === undefined ? undefined : cursorOf(pageToken)
  if (pageToken !== undefined && cursor === undefined) {
    return yield* invalidParams([{ path: "pageToken", message: "Expected the nextPageToken of another page" }])
  }
  const { items, next, total } = yield* Effect.gen(function* () {
    const filter = {
      ...(contextId !== undefined && { session: (yield* sessions.find(caller, contextId)).session_id }),
      ...(standing !== undefined && { standing }),
      ...(since !== undefined && { since })
    }
    return yield* services.tasks.list(caller, filter, { limit: pageSize, ...(cursor !== undefined && { cursor }) })
  }).pipe(Effect.catchTag("NotFound", () => Effect.succeed({ items: [], next: null, total: 0 })))
  const isBrief = !includesArtifacts && historyLength === 0
  const whole = isBrief
    ? undefined
    : yield* tell(
        services,
        caller,
        items.map(({ task_id }) => task_id)
      )
  const tasks = items.flatMap((item): ReadonlyArray<Metadata> => {
    const brief = briefOf(item)
    if (whole === undefined) return [json.task(brief)]
    const found = whole.get(item.task_id)?.task
    // A session that is deleted meanwhile takes its tasks along.
    if (found === undefined) return []
    const task = withHistory({ ...found, status: { ...found.status, ...brief.status } }, historyLength)
    return [json.task(includesArtifacts ? task : { ...task, artifacts: [] })]
  })
  return { tasks, nextPageToken: next === null ? "" : tokenOf(next), pageSize, totalSize: total }
})
