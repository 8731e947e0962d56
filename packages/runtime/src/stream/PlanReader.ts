import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { Stream } from "effect"
import type { PlanFrame } from "./EventRow.ts"

/**
 * What a reader of a plan is given: a frame; `ping`, after 10 s of silence; or `reconnect`, when the gateway ends the stream
 * though the plan is not over for this reader, who comes back with the last seq that it has seen.
 */
export type ReaderItem = PlanFrame | "ping" | "reconnect"

/** Ends behind the `done` frame or a `reconnect`. */
export type PlanReader = Stream.Stream<ReaderItem, StorageError>
