import { Unreachable } from "@bowline/domain/peer/PeerError"
import { Duration, Effect } from "effect"
import { failure, type ExchangeError } from "../http/ExchangeError.ts"
import type { Task } from "../task/Task.ts"
import * as Patience from "./Patience.ts"
import type { RemoteTask } from "./RemoteTask.ts"

const pollPatience = Duration.seconds(10)
const unanswered = failure("transient", new Unreachable({ message: "no answer" }))

/** The waits of one call between its requests, and the polls. A poll is made until there is a good answer, for 30 seconds. */
export const make = Effect.fnUntraced(function* (remote: RemoteTask) {
  const pause = yield* Patience.pauses
  const poll = (taskId: string): Effect.Effect<Task, ExchangeError> =>
    Patience.persist(pause, Patience.usual, unanswered, ({ reason }) =>
      Effect.timeoutOrElse(remote.get(taskId), {
        duration: pollPatience,
        orElse: () => Effect.fail(failure("transient", reason))
      })
    )
  return { pause, poll }
})
