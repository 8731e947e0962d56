import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Unreachable } from "@bowline/domain/peer/PeerError"
import { mayPass } from "@bowline/runtime/unstable/http/ExchangeError"
import { pollDelay } from "@bowline/runtime/unstable/http/PollDelay"
import { Effect, Random, Result, Schema } from "effect"
import { ServerFailure } from "./Failure.ts"

/** How long one question for a task may take, and how long a server may go without a usable answer to them. */
const pollLimit = "10 seconds"
const answerLimitMs = 30_000

/** The pauses that a server may ask for, in milliseconds. */
const shortestPause = 50
const longestPause = 60_000

/**
 * What the tasks of 2025-11-25 and those of the extension of 2026-07-28 have in common, and what they do not. A task of 2026-07-28 brings its own
 * result; for one of 2025-11-25 the server is asked for it.
 */
export const ServerTask = Schema.Struct({
  taskId: Schema.String.check(Schema.isBetweenLength(1, 512)),
  status: Schema.Literals(["working", "input_required", "completed", "failed", "cancelled"]),
  statusMessage: Schema.optionalKey(Schema.String),
  pollInterval: Schema.optionalKey(Schema.Finite),
  pollIntervalMs: Schema.optionalKey(Schema.Finite),
  result: Schema.optionalKey(Schema.Unknown),
  error: Schema.optionalKey(Schema.Struct({ code: Schema.Int, message: Schema.String })),
  inputRequests: Schema.optionalKey(Schema.Unknown)
})
export type ServerTask = typeof ServerTask.Type

const unanswered = ServerFailure.of(
  new Unreachable({ message: "The server has not said for 30 seconds how its task is doing" })
)

const pauseOf = ({ pollInterval, pollIntervalMs = pollInterval }: ServerTask, elapsed: number, random: number) => {
  if (pollIntervalMs === undefined) return pollDelay(elapsed, random)
  return Math.min(Math.max(pollIntervalMs, shortestPause), longestPause)
}

/**
 * Asks for a task until the server has stopped working at it, in the pauses that the server asks for, else in those of a peer. A question that
 * fails and may pass is asked again; `onStatus` gets what the server says meanwhile.
 */
export const awaitEnd = Effect.fnUntraced(function* (
  first: ServerTask,
  get: (taskId: string) => Effect.Effect<ServerTask, ServerFailure>,
  onStatus: (message: string) => void
): Effect.fn.Return<ServerTask, ServerFailure> {
  const begun = yield* Monotonic.now
  let task = first
  let now = begun
  let answered = begun
  while (task.status === "working") {
    if (task.statusMessage !== undefined) onStatus(task.statusMessage)
    yield* Effect.sleep(pauseOf(task, now - begun, yield* Random.next))
    const asked = yield* Effect.result(
      Effect.timeoutOrElse(get(first.taskId), { duration: pollLimit, orElse: () => Effect.fail(unanswered) })
    )
    now = yield* Monotonic.now
    if (Result.isSuccess(asked)) {
      task = asked.success
      answered = now
    } else if (!mayPass(asked.failure.reason)) {
      return yield* asked.failure
    } else if (now - answered > answerLimitMs) {
      return yield* unanswered
    }
  }
  return task
})
