import { Unreachable, type PeerErrorReason } from "@bowline/domain/peer/PeerError"
import type { PeerCall, PeerEvent, PeerResult, RemoteIds } from "@bowline/runtime/peer/PeerClient"
import { Clock, Duration, Effect, Option, Schedule } from "effect"
import type { Outgoing } from "../dialect/Codec.ts"
import { failure, garbled, type ExchangeError } from "../http/ExchangeError.ts"
import { beginning, narrate, narrateEnd } from "../task/Narration.ts"
import { pollSchedule, sendSchedule } from "../task/PollSchedule.ts"
import { standingOf } from "../task/Standing.ts"
import type { Task } from "../task/Task.ts"
import { resultText } from "../task/Words.ts"
import type { PeerLink } from "./PeerLink.ts"
import type { RemoteTask } from "./RemoteTask.ts"

type OnEvent = (event: PeerEvent) => Effect.Effect<void>

const patience = Duration.seconds(30)
const pollPatience = Duration.seconds(10)
const settlingPatience = 60_000

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

/** Sends the message, and tells the ids as soon as they are known. */
const open = Effect.fnUntraced(function* (
  link: PeerLink,
  remote: RemoteTask,
  call: PeerCall,
  ids: RemoteIds,
  onEvent: OnEvent
): Effect.fn.Return<Task, ExchangeError> {
  if (ids.taskId !== null) {
    yield* onEvent({ _tag: "Accepted", remoteTaskId: ids.taskId, remoteContextId: ids.contextId })
  }
  const send = remote.send(link.codec.sendParams(outgoing(call, link, ids)), ids)
  const task = yield* Effect.retry(send, { schedule: sendSchedule, while: ({ verdict }) => verdict === "unsent" })
  const remoteTaskId = task.id ?? ids.taskId
  const remoteContextId = task.contextId ?? ids.contextId
  if (ids.taskId === null || remoteTaskId !== ids.taskId || remoteContextId !== ids.contextId) {
    yield* onEvent({ _tag: "Accepted", remoteTaskId, remoteContextId })
  }
  return task
})

/** Polls until there is a good answer, for 30 seconds. What went before decides how long the next wait is. */
const makePolling = Effect.map(
  Schedule.toStepWithSleep(pollSchedule),
  (wait) =>
    (remote: RemoteTask, taskId: string): Effect.Effect<Task, ExchangeError> => {
      let missed: PeerErrorReason = new Unreachable({ message: "no answer" })
      const get = Effect.timeoutOrElse(remote.get(taskId), {
        duration: pollPatience,
        orElse: () => Effect.fail(failure("transient", missed))
      })
      const poll = (after: ExchangeError["after"]): Effect.Effect<Task, ExchangeError> =>
        Effect.orDie(wait(after)).pipe(
          Effect.andThen(get),
          Effect.catchIf(
            ({ verdict }) => verdict === "unsent" || verdict === "transient",
            ({ after, reason }) => {
              missed = reason
              return poll(after)
            }
          )
        )
      return Effect.timeoutOrElse(poll(Option.none()), {
        duration: patience,
        orElse: () => {
          const message = `The peer gave no good answer for 30 seconds: ${missed.message}`
          return Effect.fail(failure("transient", new Unreachable({ message })))
        }
      })
    }
)

/** One call of a peer over its link: from the message to the end of the task, or to the state that hands it back. */
export const converse = Effect.fnUntraced(function* (
  link: PeerLink,
  remote: RemoteTask,
  call: PeerCall,
  ids: RemoteIds,
  onEvent: OnEvent
): Effect.fn.Return<PeerResult, ExchangeError> {
  let task = yield* open(link, remote, call, ids, onEvent)
  let told = beginning
  let settlingSince: number | undefined
  const nextAnswer = yield* makePolling

  const end = (state: PeerResult["state"], isOpen: boolean) =>
    Effect.as(Effect.forEach(narrateEnd(told, task, "unknown"), onEvent, { discard: true }), {
      state,
      content: resultText(task, isOpen),
      verified: "unknown" as const
    })

  for (;;) {
    const standing = standingOf(task.state)
    if (standing._tag === "ended") return yield* end(standing.state, false)
    if (standing._tag === "handed-back") return yield* end(standing.state, true)

    const [next, events] = narrate(told, task)
    told = next
    yield* Effect.forEach(events, onEvent, { discard: true })
    if (task.id === null) return yield* garbled(link.codec.methods.send, { message: "Missing the id of the task" })
    if (standing._tag === "working") {
      settlingSince = undefined
      task = yield* nextAnswer(remote, task.id)
      continue
    }
    const now = yield* Clock.currentTimeMillis
    settlingSince ??= now
    const left = Duration.millis(settlingSince + settlingPatience - now)
    const answer = yield* Effect.timeoutOption(nextAnswer(remote, task.id), left)
    if (Option.isNone(answer)) return yield* end(standing.state, true)
    task = answer.value
  }
})
