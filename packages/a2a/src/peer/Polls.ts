import { Unreachable, type PeerErrorReason } from "@bowline/domain/peer/PeerError"
import { Duration, Effect, Option, Schedule } from "effect"
import { failure, type ExchangeError } from "../http/ExchangeError.ts"
import { pollSchedule } from "../task/PollSchedule.ts"
import type { Task } from "../task/Task.ts"
import type { RemoteTask } from "./RemoteTask.ts"

const patience = Duration.seconds(30)
const pollPatience = Duration.seconds(10)

/**
 * The waits of one call between its requests, and the polls. What went before decides how long the next wait is. A poll is
 * made until there is a good answer, for 30 seconds.
 */
export const make = Effect.fnUntraced(function* (remote: RemoteTask) {
  const wait = yield* Schedule.toStepWithSleep(pollSchedule)
  const pause = (after: ExchangeError["after"] = Option.none()) => Effect.orDie(wait(after))

  const poll = (taskId: string): Effect.Effect<Task, ExchangeError> => {
    let missed: PeerErrorReason = new Unreachable({ message: "no answer" })
    const get = Effect.timeoutOrElse(remote.get(taskId), {
      duration: pollPatience,
      orElse: () => Effect.fail(failure("transient", missed))
    })
    const again = (after?: ExchangeError["after"]): Effect.Effect<Task, ExchangeError> =>
      Effect.andThen(pause(after), get).pipe(
        Effect.catchIf(
          ({ verdict }) => verdict === "unsent" || verdict === "transient",
          ({ after, reason }) => {
            missed = reason
            return again(after)
          }
        )
      )
    return Effect.timeoutOrElse(again(), {
      duration: patience,
      orElse: () => {
        const message = `The peer gave no good answer for 30 seconds: ${missed.message}`
        const code = missed._tag === "unreachable" ? missed.code : undefined
        return Effect.fail(failure("transient", new Unreachable({ message, code })))
      }
    })
  }
  return { pause, poll }
})
