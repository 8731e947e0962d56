import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import { cancelTimeout } from "@bowline/runtime/remote/PeerClient"
import { Effect, FiberSet } from "effect"
import type { ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { PeerLink } from "./PeerLink.ts"
import type { RemoteTask } from "./RemoteTask.ts"
import type { PeerCalls } from "./PeerCalls.ts"

/** Why a remote task is not cancelled. */
interface Obstacle {
  readonly message: string
}

const notNamed: Obstacle = { message: "The peer has not sent the id of its task" }
const notAccepted: Obstacle = { message: "The peer did not accept the cancel in time" }

/**
 * Cancels remote tasks that calls leave open: once, within a time limit of its own, in a fiber that the call does not wait
 * for. Closing the scope waits for the cancels that are still running.
 */
export const make = Effect.fnUntraced(function* (calls: PeerCalls) {
  const pending = yield* FiberSet.make<void>()
  yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(pending), cancelTimeout))

  const ask = (link: PeerLink, taskId: string): Effect.Effect<void, Obstacle> =>
    calls.cancel(link, taskId).pipe(
      Effect.andThen(Effect.logDebug("The remote task is cancelled")),
      Effect.mapError(({ reason }) => reason)
    )

  /** `taskId` gives null for as long as the peer has not told it. */
  const run = (endpoint: string, taskId: () => string | null, cancel: Effect.Effect<void, Obstacle>) =>
    cancel.pipe(
      Effect.timeoutOrElse({
        duration: cancelTimeout,
        orElse: () => Effect.fail(taskId() === null ? notNamed : notAccepted)
      }),
      Effect.catch(({ message }) =>
        Effect.annotateLogs(Effect.logWarning("remote_task_not_cancelled"), {
          reason: message,
          endpoint: UrlSecrets.without(endpoint),
          remote_task_id: taskId()
        })
      ),
      (ending) => Effect.asVoid(FiberSet.run(pending, ending, { startImmediately: true }))
    )

  const cancel = (endpoint: string, connect: Effect.Effect<PeerLink, ExchangeError>, taskId: string) => {
    const asked = Effect.mapError(connect, ({ reason }): Obstacle => reason)
    return run(
      endpoint,
      () => taskId,
      Effect.flatMap(asked, (link) => ask(link, taskId))
    )
  }

  const cancelOpen = (link: PeerLink, remote: RemoteTask): Effect.Effect<void> => {
    const taskId = () => (remote.state._tag === "open" ? remote.state.taskId : null)
    const askOpen = Effect.suspend((): Effect.Effect<void, Obstacle> => {
      const { state } = remote
      if (state._tag === "none") return Effect.void
      return state._tag === "open" ? ask(link, state.taskId) : Effect.fail(notNamed)
    })
    const answered = remote.abandon()
    if (remote.state._tag === "none") return remote.drop
    const askNamed = answered === undefined ? askOpen : Effect.andThen(answered, askOpen)
    // Where the client made the id, the cancel may arrive before the message: then the peer does not know the task yet.
    const cancel =
      remote.state._tag === "open" && answered !== undefined ? askOpen.pipe(Effect.catch(() => askNamed)) : askNamed
    return run(link.endpoint, taskId, Effect.ensuring(cancel, remote.drop))
  }
  return {
    /** Cancels the task of a call that ends without a result, if it is open, as soon as the peer has named it. */
    cancelOpen,
    /** Cancels a task that an earlier call left open. `connect` finds out first how to speak to its peer. */
    cancel
  }
})
