import { Rpc, Untrusted } from "@bowline/domain/peer/PeerError"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { OpenTask, PeerCall, PeerResult, RemoteIds } from "@bowline/runtime/remote/PeerClient"
import { Duration, Effect, Option, Schedule } from "effect"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { Outgoing } from "../dialect/Codec.ts"
import { failure, garbled, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { shownParts, type Verification } from "../identity/Verification.ts"
import { Narration } from "../task/Narration.ts"
import { standingOf } from "../task/Standing.ts"
import type { Task } from "../task/Task.ts"
import { resultText } from "../task/Words.ts"
import type { Disclosure } from "./Disclosure.ts"
import type { PeerLink } from "./PeerLink.ts"
import * as Polling from "./Polling.ts"
import type { Opened, RemoteTask } from "./RemoteTask.ts"

/** What one call of a peer needs. `ids` are the peer's, as far as they are known before the message is sent. */
export interface RunningCall {
  readonly call: PeerCall
  readonly link: PeerLink
  readonly remote: RemoteTask
  readonly ids: RemoteIds
  readonly verification: Verification
  readonly disclosure: Disclosure
}

/** The task is over for the caller. It may still be open at the peer. */
interface Over {
  readonly _tag: "Over"
  readonly task: Task
  readonly state: PeerResult["state"]
  readonly isOpen: boolean
  readonly isStreamed: boolean
}

/** The stream broke off. The peer still works on the task. */
interface Lost {
  readonly _tag: "Lost"
  readonly task: Task
  readonly taskId: string
}

type Follow = (opened: Opened) => Effect.Effect<Over | Lost, ExchangeError>

const authorizationLimit = 60_000
const answerLimit = Duration.seconds(10)

/**
 * When to send again what never arrived. A peer that restarts is back within seconds; the caller should soon know about one
 * that is not there.
 */
const sendSchedule = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]).pipe(
  Schedule.jittered,
  Schedule.upTo({ duration: "5 seconds" })
)

const outgoing = ({ agent, input, route, skill, taskId }: PeerCall, link: PeerLink, ids: RemoteIds): Outgoing => {
  const words = skill.input_schema === undefined ? input["input"] : undefined
  const args = link.takesTextOnly(skill.id) ? JSON.stringify(input) : input
  const content = typeof words === "string" ? words : args
  return {
    messageId: taskId,
    content,
    ids,
    referenceTaskIds: agent.reference_task_ids ?? [],
    metadata: { skill_id: skill.id, bowline_hops: route.hops, bowline_via: route.via },
    outputModes: skill.output_modes
  }
}

/** The peer does not stream, whatever its card says: no such method, or an operation that it does not support. */
const isNotStreaming = ({ reason }: ExchangeError): boolean =>
  reason instanceof Rpc && (reason.code === -32601 || reason.code === -32004)

/** A task may run on after its stream ends. Only an answer that is too large is too large in every other way, too. */
const orLost = (next: Effect.Effect<Task, ExchangeError>): Effect.Effect<Option.Option<Task>, ExchangeError> =>
  Effect.catchIf(
    Effect.asSome(next),
    ({ reason }) => reason._tag !== "response_too_large",
    () => Effect.succeedNone
  )

const neverArrived = ({ reason, verdict }: ExchangeError): boolean =>
  verdict === "unsent" || reason._tag === "egress_denied" || (reason._tag === "auth" && reason.status === undefined)

/** Waits for the next state of a task. While somebody has to authorize the peer, it waits for 60 seconds in all. */
const makeWait = () => {
  let authorizingSince: number | undefined
  return Effect.fnUntraced(function* <A>(state: string, next: Effect.Effect<A, ExchangeError>) {
    if (standingOf(state)._tag !== "authorizing") {
      authorizingSince = undefined
      return Option.some(yield* next)
    }
    const now = yield* Monotonic.now
    authorizingSince ??= now
    const left = authorizingSince + authorizationLimit - now
    return left <= 0 ? Option.none() : yield* Effect.timeoutOption(next, left)
  })
}

/** Follows a task and tells what it does until it is over, or until its stream breaks off. Without a stream it polls. */
const makeFollow = (
  { disclosure, link }: RunningCall,
  narration: Narration,
  poll: (taskId: string) => Effect.Effect<Task, ExchangeError>
): Follow => {
  const wait = makeWait()
  return Effect.fnUntraced(function* ({ next, ...opened }: Opened): Effect.fn.Return<Over | Lost, ExchangeError> {
    let task = opened.task
    const isStreamed = next !== undefined
    for (;;) {
      const standing = standingOf(task.state)
      if (standing._tag === "ended" || standing._tag === "handed-back") {
        return { _tag: "Over", task, state: standing.state, isOpen: standing._tag === "handed-back", isStreamed }
      }
      yield* disclosure.tell(narration.next(task))
      const taskId = task.id
      if (taskId === null) return yield* garbled(link.codec.methods.send, { message: "Missing the id of the task" })
      const answer = yield* wait(task.state, next === undefined ? Effect.asSome(poll(taskId)) : orLost(next))
      if (Option.isNone(answer)) return { _tag: "Over", task, state: "auth-required", isOpen: true, isStreamed }
      if (Option.isNone(answer.value)) return { _tag: "Lost", task, taskId }
      task = answer.value.value
    }
  })
}

/** Sends the message, and tells the ids of the task as soon as they are known. */
const open = Effect.fnUntraced(function* ({ call, disclosure, ids, link, remote }: RunningCall) {
  const tellIds = (remoteTaskId: string | null, remoteContextId: string | null) =>
    disclosure.tell([{ _tag: "Accepted", remoteTaskId, remoteContextId }])
  if (ids.taskId !== null) yield* tellIds(ids.taskId, ids.contextId)
  const params = link.codec.sendParams(outgoing(call, link, ids))
  const send = Effect.suspend(() => remote.send(params, ids))
  const opened = yield* (
    link.streams ? Effect.catchIf(remote.stream(params, ids), isNotStreaming, () => send) : send
  ).pipe(
    Effect.retry({ schedule: sendSchedule, while: ({ verdict }) => verdict === "unsent" }),
    // The peer never got the message. A task that it handed back earlier still waits.
    Effect.tapError((error) => (neverArrived(error) ? tellIds(null, null) : Effect.void))
  )
  const taskId = opened.task.id ?? ids.taskId
  const contextId = opened.task.contextId ?? ids.contextId
  if (ids.taskId === null || taskId !== ids.taskId || contextId !== ids.contextId) yield* tellIds(taskId, contextId)
  return opened
})

/** Subscribes to the stream of a task again, if the peer can do that and says something in it soon. */
const resubscribe = ({ remote }: RunningCall, taskId: string) =>
  Effect.option(Effect.timeout(remote.subscribe(taskId), answerLimit))

/** Asks for the whole task once, since a part of its stream is missing. */
const fetchWhole = ({ remote }: RunningCall, { task }: Over): Effect.Effect<Task> =>
  task.id === null
    ? Effect.succeed(task)
    : Effect.timeout(remote.get(task.id), answerLimit).pipe(
        Effect.filterOrFail(({ state }) => state === task.state),
        Effect.orElseSucceed(() => task)
      )

/** Whether the answer is verified. An answer that has to be verified and is not fails the call. */
const verify = Effect.fnUntraced(function* (
  { link: { did, endpoint }, verification }: RunningCall,
  task: Task
): Effect.fn.Return<Verified, ExchangeError> {
  const verdict = yield* verification.verify({ did, endpoint, parts: shownParts(task) })
  if (verdict.verified === "yes") return "yes"
  const message = `What the peer said is withheld. ${verdict.why}`
  return yield* failure("garbled", new Untrusted({ message }))
})

/**
 * Makes one call of a peer over its link: from the message, or from a task that another process started, to the end of the
 * task, or to the state in which the peer hands it back.
 */
export const runCall = Effect.fnUntraced(function* (running: RunningCall): Effect.fn.Return<PeerResult, ExchangeError> {
  const { call, disclosure, link, remote } = running
  const { pause, poll } = yield* Polling.make((taskId) => remote.get(taskId))
  const isVerified = call.agent.trust?.verify_did === true
  const narration = new Narration(isVerified)
  const follow = makeFollow(running, narration, poll)

  const followAgain = ({ task, taskId }: Lost) =>
    pause().pipe(
      Effect.andThen(resubscribe(running, taskId)),
      Effect.flatMap((opened) => follow(Option.getOrElse(opened, () => ({ task }))))
    )

  /** Of the task nothing is known but that another process started it. */
  const resume = ({ taskId }: OpenTask) =>
    (link.streams ? resubscribe(running, taskId) : Effect.succeedNone).pipe(
      Effect.flatMap(
        Option.match({ onSome: Effect.succeed, onNone: () => Effect.map(poll(taskId), (task) => ({ task })) })
      ),
      Effect.flatMap(follow)
    )

  const { resumes } = call
  let end = yield* Effect.scoped(resumes === undefined ? Effect.flatMap(open(running), follow) : resume(resumes))
  const isWhole = end._tag === "Over" && resumes === undefined
  while (end._tag === "Lost") end = yield* Effect.scoped(followAgain(end))
  const task = isWhole || !end.isStreamed ? end.task : yield* fetchWhole(running, end)
  const verified = isVerified ? yield* verify(running, task) : "unknown"
  yield* disclosure.tell(narration.end(task, verified))
  const content = yield* disclosure.finish(resultText(task, end.isOpen && !isVerified))
  return { state: end.state, content, verified }
})
