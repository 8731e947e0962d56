import { Rpc, Untrusted } from "@bowline/domain/peer/PeerError"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { OpenTask, PeerCall, PeerEvent, PeerResult, RemoteIds } from "@bowline/runtime/peer/PeerClient"
import { Clock, Duration, Effect, Option, Schedule } from "effect"
import type { Outgoing } from "../dialect/Codec.ts"
import { maxBytes, tooLarge } from "../http/Exchange.ts"
import { failure, garbled, type ExchangeError } from "../http/ExchangeError.ts"
import { shownParts, type Verification } from "../identity/Verification.ts"
import { Narration } from "../task/Narration.ts"
import { standingOf } from "../task/Standing.ts"
import { since, type Task } from "../task/Task.ts"
import { resultText } from "../task/Words.ts"
import type { PeerLink } from "./PeerLink.ts"
import * as Polling from "./Polling.ts"
import type { Opened, RemoteTask } from "./RemoteTask.ts"

type OnEvent = (event: PeerEvent) => Effect.Effect<void>

/** Where the task is left: over for the caller, or still at work, with its stream gone. */
type Left =
  | {
      readonly _tag: "Over"
      readonly task: Task
      readonly state: PeerResult["state"]
      readonly isOpen: boolean
      readonly isStreamed: boolean
    }
  | { readonly _tag: "Lost"; readonly task: Task; readonly taskId: string }

const settlingPatience = 60_000

/** Characters of all messages on the way of one call. */
const maxTold = 4 * maxBytes
const answerPatience = Duration.seconds(10)

/**
 * When to send again what never arrived. A peer that is being restarted is back within seconds; one that is not there should
 * be said so soon.
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

/** Whatever ends a stream, the task may go on, but for an answer that no other way would make smaller. */
const orLost = (next: Effect.Effect<Task, ExchangeError>): Effect.Effect<Option.Option<Task>, ExchangeError> =>
  Effect.catchIf(
    Effect.asSome(next),
    ({ reason }) => reason._tag !== "response_too_large",
    () => Effect.succeedNone
  )

const neverArrived = ({ reason, verdict }: ExchangeError): boolean =>
  verdict === "unsent" || reason._tag === "egress_denied" || (reason._tag === "auth" && reason.status === undefined)

/**
 * One call of a peer over its link: from the message, or from where another process has left it, to the end of the task, or to
 * the state that hands it back.
 */
export const converse = Effect.fnUntraced(function* (
  link: PeerLink,
  remote: RemoteTask,
  call: PeerCall,
  ids: RemoteIds,
  verification: Verification,
  onEvent: OnEvent
): Effect.fn.Return<PeerResult, ExchangeError> {
  const { pause, poll } = yield* Polling.make((taskId) => remote.get(taskId))
  const isVerified = call.agent.trust?.verify_did === true
  const narration = new Narration(isVerified)
  let settlingSince: number | undefined
  let toldCharacters = 0

  const tell = Effect.fnUntraced(function* (events: ReadonlyArray<PeerEvent>) {
    for (const event of events) {
      if (event._tag === "Progress") toldCharacters += event.message?.length ?? 0
      if (toldCharacters > maxTold) return yield* tooLarge
      yield* onEvent(event)
    }
  })

  /** What comes next, if it comes before the peer has waited too long for somebody else. */
  const settling = Effect.fnUntraced(function* <A>(state: string, next: Effect.Effect<A, ExchangeError>) {
    if (standingOf(state)._tag === "working") {
      settlingSince = undefined
      return Option.some(yield* next)
    }
    const now = yield* Clock.currentTimeMillis
    settlingSince ??= now
    const left = settlingSince + settlingPatience - now
    return left <= 0 ? Option.none() : yield* Effect.timeoutOption(next, left)
  })

  /** Tells what the task does until it is over. Without a stream the peer is asked for it. */
  const follow = Effect.fnUntraced(function* ({ next, ...opened }: Opened): Effect.fn.Return<Left, ExchangeError> {
    let task = since(opened.task, call.taskId)
    const isStreamed = next !== undefined
    for (;;) {
      const standing = standingOf(task.state)
      if (standing._tag === "ended" || standing._tag === "handed-back") {
        return { _tag: "Over", task, state: standing.state, isOpen: standing._tag === "handed-back", isStreamed }
      }
      yield* tell(narration.next(task))
      const taskId = task.id
      if (taskId === null) return yield* garbled(link.codec.methods.send, { message: "Missing the id of the task" })
      const wait = next === undefined ? Effect.asSome(poll(taskId)) : orLost(next)
      const answer = yield* settling(task.state, wait)
      if (Option.isNone(answer)) return { _tag: "Over", task, state: "auth-required", isOpen: true, isStreamed }
      if (Option.isNone(answer.value)) return { _tag: "Lost", task, taskId }
      task = since(answer.value.value, call.taskId)
    }
  })

  /** Sends the message, and tells the ids as soon as they are known. */
  const open = Effect.gen(function* () {
    const told = (taskId: string | null, contextId: string | null) =>
      onEvent({ _tag: "Accepted", remoteTaskId: taskId, remoteContextId: contextId })
    if (ids.taskId !== null) yield* told(ids.taskId, ids.contextId)
    const params = link.codec.sendParams(outgoing(call, link, ids))
    const send = Effect.suspend(() => remote.send(params, ids))
    const opened = yield* (
      link.streams ? Effect.catchIf(remote.stream(params, ids), isNotStreaming, () => send) : send
    ).pipe(
      Effect.retry({ schedule: sendSchedule, while: ({ verdict }) => verdict === "unsent" }),
      // What the peer never heard of stays as it was: a task that it handed back still waits.
      Effect.tapError((error) => (neverArrived(error) ? told(null, null) : Effect.void))
    )
    const taskId = opened.task.id ?? ids.taskId
    const contextId = opened.task.contextId ?? ids.contextId
    if (ids.taskId === null || taskId !== ids.taskId || contextId !== ids.contextId) yield* told(taskId, contextId)
    return opened
  })

  /** Takes the stream up again, if the peer can do that and has something to say in it. */
  const takeUp = (taskId: string) => Effect.option(Effect.timeout(remote.subscribe(taskId), answerPatience))

  const regain = ({ task, taskId }: Extract<Left, { readonly _tag: "Lost" }>) =>
    pause().pipe(
      Effect.andThen(takeUp(taskId)),
      Effect.flatMap((opened) => follow(Option.getOrElse(opened, () => ({ task }))))
    )

  /** Goes on with a task of which nothing is known but that it was started. */
  const resume = ({ taskId }: OpenTask) =>
    (link.streams ? takeUp(taskId) : Effect.succeedNone).pipe(
      Effect.flatMap(
        Option.match({ onSome: Effect.succeed, onNone: () => Effect.map(poll(taskId), (task) => ({ task })) })
      ),
      Effect.flatMap(follow)
    )

  /** What a stream told is not all where a part of it is missing. */
  const whole = (left: Extract<Left, { readonly _tag: "Over" }>) =>
    left.task.id === null
      ? Effect.succeed(left.task)
      : Effect.timeout(remote.get(left.task.id), answerPatience).pipe(
          Effect.filterOrFail(({ state }) => state === left.task.state),
          Effect.map((task) => since(task, call.taskId)),
          Effect.orElseSucceed(() => left.task)
        )

  /** What may be believed of it. Where it has to be verified, nothing else is told to anybody. */
  const judge = Effect.fnUntraced(function* (task: Task): Effect.fn.Return<Verified, ExchangeError> {
    if (!isVerified) return "unknown"
    const { did, endpoint } = link
    const verdict = yield* verification.verify({ did, endpoint, parts: shownParts(task) })
    if (verdict.verified === "yes") return "yes"
    const message = `What the peer said is withheld. ${verdict.why}`
    return yield* failure("garbled", new Untrusted({ message }))
  })

  const { resumes } = call
  let left = yield* Effect.scoped(resumes === undefined ? Effect.flatMap(open, follow) : resume(resumes))
  const isWhole = left._tag === "Over" && resumes === undefined
  while (left._tag === "Lost") left = yield* Effect.scoped(regain(left))
  const task = isWhole || !left.isStreamed ? left.task : yield* whole(left)
  const verified = yield* judge(task)
  yield* tell(narration.end(task, verified))
  return { state: left.state, content: resultText(task, left.isOpen && !isVerified), verified }
})
