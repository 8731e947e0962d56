import { Rpc, Untrusted } from "@bowline/domain/peer/PeerError"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { OpenTask, PeerAnswer, PeerCall, PeerResult, RemoteIds } from "@bowline/runtime/remote/PeerClient"
import { Duration, Effect, Option, Schedule, Schema, type Scope } from "effect"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { Outgoing, Params } from "../dialect/Codec.ts"
import { failure, garbled, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { shownParts, type Verification } from "../identity/Verification.ts"
import { Narration } from "../task/Narration.ts"
import * as Question from "../task/Question.ts"
import { standingOf } from "../task/Standing.ts"
import type { Task } from "../task/Task.ts"
import { resultFiles, resultText } from "../task/Words.ts"
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

const outgoing = (
  { call: { agent, route, skill }, link }: Pick<RunningCall, "call" | "link">,
  ids: RemoteIds,
  messageId: string,
  data: string | Params,
  files: Outgoing["files"] = []
): Outgoing => ({
  messageId,
  files,
  content: typeof data === "string" || !link.takesTextOnly(skill.id) ? data : JSON.stringify(data),
  ids,
  referenceTaskIds: agent.reference_task_ids ?? [],
  metadata: { skill_id: skill.id, bowline_hops: route.hops, bowline_via: route.via },
  outputModes: skill.output_modes
})

/** The first message of a call. */
const firstMessage = (running: RunningCall): Outgoing => {
  const { files, input, skill, taskId } = running.call
  const words = skill.input_schema === undefined ? input["input"] : undefined
  return outgoing(running, running.ids, taskId, typeof words === "string" ? words : input, files)
}

const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))

/** What somebody has answered. Not every dialect can write data that are no object. */
const answerMessage = (running: RunningCall, ids: RemoteIds, { content, messageId }: PeerAnswer): Outgoing =>
  outgoing(running, ids, messageId, typeof content === "string" || isObject(content) ? content : { value: content })

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
  verdict === "unsent" ||
  reason._tag === "account_required" ||
  reason._tag === "egress_denied" ||
  (reason._tag === "auth" && reason.status === undefined)

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
  isAnswered: (task: Task) => boolean,
  poll: (taskId: string) => Effect.Effect<Task, ExchangeError>
): Follow => {
  const wait = makeWait()
  return Effect.fnUntraced(function* ({ next, ...opened }: Opened): Effect.fn.Return<Over | Lost, ExchangeError> {
    let task = opened.task
    const isStreamed = next !== undefined
    for (;;) {
      const standing = standingOf(task.state)
      if (standing._tag === "ended" || (standing._tag === "handed-back" && !isAnswered(task))) {
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

/** Sends a message, once more where it provably did not reach the peer. */
const deliver = ({ link, remote }: RunningCall, message: Outgoing) => {
  const params = link.codec.sendParams(message)
  const send = Effect.suspend(() => remote.send(params, message.ids))
  return (link.streams ? Effect.catchIf(remote.stream(params, message.ids), isNotStreaming, () => send) : send).pipe(
    Effect.retry({ schedule: sendSchedule, while: ({ verdict }) => verdict === "unsent" })
  )
}

/** Sends the first message, and tells the ids of the task as soon as they are known. */
const open = Effect.fnUntraced(function* (running: RunningCall) {
  const { disclosure, ids } = running
  const tellIds = (remoteTaskId: string | null, remoteContextId: string | null) =>
    disclosure.tell([{ _tag: "Accepted", remoteTaskId, remoteContextId }])
  if (ids.taskId !== null) yield* tellIds(ids.taskId, ids.contextId)
  const opened = yield* deliver(running, firstMessage(running)).pipe(
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

/** Asks what the peer asks, without the secrets of the call. A question that has to be verified and is not fails the call. */
const askUser = Effect.fnUntraced(function* (
  running: RunningCall,
  answer: NonNullable<PeerCall["answer"]>,
  narration: Narration,
  task: Task
) {
  const { call, disclosure, link } = running
  if (call.agent.trust?.verify_did === true) yield* verify(running, task)
  yield* disclosure.tell(narration.next(task))
  const { data, mark, message } = Question.questionOf(task)
  const { redaction } = link.target.auth
  return yield* answer({
    mark,
    message: yield* disclosure.finish(message),
    ...(data !== undefined && { data: redaction.json(data) })
  })
})

/**
 * Makes one call of a peer over its link: from the message, or from a task that another process started, to the end of the
 * task, or to the state in which the peer hands it back. What the peer asks on the way is answered in the same task, if somebody answers.
 */
export const runCall = Effect.fnUntraced(function* (running: RunningCall): Effect.fn.Return<PeerResult, ExchangeError> {
  const { call, disclosure, link, remote } = running
  const isVerified = call.agent.trust?.verify_did === true
  const narration = new Narration(isVerified)
  let answered: string | undefined

  /** Follows the task from what opens it until it is over for the caller. `isWhole`: its stream has the whole task. */
  const reach = Effect.fnUntraced(function* (
    begin: Effect.Effect<Opened, ExchangeError, Scope.Scope> | OpenTask,
    isWhole: boolean
  ): Effect.fn.Return<Over, ExchangeError> {
    const { pause, poll } = yield* Polling.make((taskId) => remote.get(taskId))
    const follow = makeFollow(running, narration, (task) => Question.isStill(task, answered), poll)
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
        )
      )
    let end = yield* Effect.scoped(Effect.flatMap(Effect.isEffect(begin) ? begin : resume(begin), follow))
    const isComplete = isWhole && end._tag === "Over"
    while (end._tag === "Lost") end = yield* Effect.scoped(followAgain(end))
    return isComplete || !end.isStreamed ? end : { ...end, task: yield* fetchWhole(running, end) }
  })

  const { answer, resumes } = call
  let end = yield* reach(resumes ?? open(running), resumes === undefined)
  while (answer !== undefined && end.state === "input-required" && end.task.id !== null) {
    const { contextId, id: taskId } = end.task
    const given = yield* askUser(running, answer, narration, end.task)
    if (given === "expired") return { state: "timed-out", content: "", verified: "unknown" }
    if (given === undefined) break
    answered = Question.markOf(end.task)
    remote.goOn(given.messageId)
    end = yield* reach(deliver(running, answerMessage(running, { taskId, contextId }, given)), false)
  }
  const { task } = end
  const verified = isVerified ? yield* verify(running, task) : "unknown"
  yield* disclosure.tell(narration.end(task, verified))
  const content = yield* disclosure.finish(resultText(task, end.isOpen && !isVerified))
  return { state: end.state, content, verified, ...disclosure.withoutSecrets(resultFiles(task)) }
})
