import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { Effect, Stream } from "effect"
import type { PlanFrame } from "../store/EventRow.ts"

/**
 * What a reader of a plan is given: a frame; `ping`, after 10 s of silence; or `reconnect`, when the gateway ends the stream
 * though the plan is not over for this reader, who comes back with the last seq that it has seen.
 */
export type ReaderItem = PlanFrame | "ping" | "reconnect"

/** Ends behind the `done` frame or a `reconnect`. */
export type PlanReader = Stream.Stream<ReaderItem, StorageError>

/**
 * What somebody who reads a plan is given. `overdue` is done when the reader was cut off and has had 10 s to take what was
 * waiting for it: whoever has not read to the end by then takes nothing any more, and its connection is to be closed.
 */
export interface Reading {
  readonly frames: PlanReader
  readonly overdue: Effect.Effect<void>
}
