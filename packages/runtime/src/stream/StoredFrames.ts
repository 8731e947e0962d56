import type { PlanId } from "@bowline/domain/plan/Plan"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Option, Stream } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { framesBehind, type PlanStore } from "../store/PlanStore.ts"
import type { PlanFrame } from "../store/EventRow.ts"
import type { PlanReader, ReaderItem } from "./LivePlan.ts"
import type { RemotePlan } from "./RemotePlans.ts"

const silenceMs = 10_000

/** The stored frames from `after + 1` to `until`. */
export const between = (
  store: PlanStore["Service"],
  id: PlanId,
  after: number,
  until: number
): Stream.Stream<PlanFrame, StorageError> =>
  Stream.paginate(after, (cursor) =>
    Effect.map(framesBehind(store, id, cursor), (frames) => {
      const last = frames.at(-1)?.seq ?? until
      return [frames.filter(({ seq }) => seq <= until), last < until ? Option.some(last) : Option.none()]
    })
  )

/**
 * The stored frames after the seq `after`. Of a plan that runs elsewhere they come live up to `done`, or until readers here must stop
 * waiting; of a plan that is over they are those in the store.
 */
export const follow = (
  store: PlanStore["Service"],
  id: PlanId,
  after: number,
  elsewhere: RemotePlan | undefined
): PlanReader =>
  Stream.unwrap(
    Effect.map(Monotonic.now, (start) => {
      let lastSent = start
      return Stream.paginate(after, (cursor) =>
        Effect.gen(function* () {
          const frames: ReadonlyArray<ReaderItem> = yield* framesBehind(store, id, cursor)
          const last = frames.at(-1)
          const now = yield* Monotonic.now
          if (typeof last === "object") {
            lastSent = now
            return [frames, last.event === "done" ? Option.none() : Option.some(last.seq)] as const
          }
          if (elsewhere === undefined) return [[], Option.none()] as const
          if (elsewhere.isClosed()) return [["reconnect" as const], Option.none()] as const
          const silence = yield* Effect.timeoutOption(elsewhere.news, lastSent + silenceMs - now)
          if (Option.isSome(silence)) return [[], Option.some(cursor)] as const
          // Its session may have been deleted before the end was read.
          if ((yield* store.events(id, 0, 1)).length === 0) return [["reconnect" as const], Option.none()] as const
          lastSent = yield* Monotonic.now
          return [["ping" as const], Option.some(cursor)] as const
        })
      )
    })
  )
