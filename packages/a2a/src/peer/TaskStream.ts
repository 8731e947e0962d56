import { Effect, Option, Result, type Schema } from "effect"
import type { Events } from "../rpc/Events.ts"
import { maxBytes, tooLarge } from "@bowline/runtime/unstable/http/Exchange"
import { garbled, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { resultOf } from "../rpc/JsonRpc.ts"
import type { Task } from "../task/Task.ts"
import { apply, type Update } from "../task/Update.ts"
import type { PeerLink } from "./PeerLink.ts"

/** Notes what a stream shows of the task. */
interface Observer {
  readonly ownPart: (task: Task) => Task
  readonly note: (task: Task) => void
  readonly noteGarbled: (method: string, result: Schema.Json, issue: Schema.SchemaError) => ExchangeError
}

/** Artifacts of a task, and parts of one of them that cannot be joined. */
const maxArtifacts = 1_000
const maxPieces = 10_000

const idOf = (update: Update): string | null => (update._tag === "Task" ? update.task.id : update.taskId)

/** Reads the events of one stream as states of one task: the one that was requested, else that of the first event. */
const reader = (method: string, link: PeerLink, observer: Observer, taskId: string | undefined) => {
  let latest: Task | null = null
  let kept = 0

  const bounded = (update: Update, size: number): Result.Result<Update, ExchangeError> => {
    const { artifacts } = latest ?? { artifacts: [] }
    const isCrowded = artifacts.length > maxArtifacts || artifacts.some(({ parts }) => parts.length > maxPieces)
    if (isCrowded) return Result.fail(tooLarge)
    kept = update._tag === "Artifact" ? kept + size : Math.max(kept, size)
    return kept > maxBytes ? Result.fail(tooLarge) : Result.succeed(update)
  }
  const ofOneTask = (update: Update): Result.Result<Update, ExchangeError> => {
    const expected = latest === null ? taskId : latest.id
    return expected === undefined || idOf(update) === null || idOf(update) === expected
      ? Result.succeed(update)
      : Result.fail(garbled(method, { message: "It is of another task" }))
  }

  return (event: string): Result.Result<Task, ExchangeError> =>
    Result.gen(function* () {
      const result = yield* resultOf(link.target, method, { status: 200, body: event, after: Option.none() })
      const read = link.codec.updateOf(result)
      if (Result.isFailure(read)) return yield* Result.fail(observer.noteGarbled(method, result, read.failure))
      const update = yield* Result.flatMap(bounded(read.success, event.length), ofOneTask)
      latest = apply(latest, update._tag === "Task" ? { ...update, task: observer.ownPart(update.task) } : update)
      observer.note(latest)
      return latest
    })
}

/**
 * Waits for the next state of the task. Every event that arrived is noted, also where nobody waits for it any more. Fails when
 * the stream breaks off.
 */
export const statesOf = (
  method: string,
  link: PeerLink,
  observer: Observer,
  events: Events,
  taskId?: string
): Effect.Effect<Task, ExchangeError> => {
  const read = reader(method, link, observer, taskId)
  let arrived: Array<Result.Result<Task, ExchangeError>> = []
  const next: Effect.Effect<Task, ExchangeError> = Effect.suspend(() => {
    const state = arrived.shift()
    if (state !== undefined) return Effect.fromResult(state)
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(events), (events) => {
        arrived = events.map(read)
        return next
      })
    )
  })
  return next
}
