import type { Model } from "../provider/ModelTable.ts"

export type Limits = Pick<Model, "contextWindow" | "outputLimit">

/** Tokens of the window that are reserved for the answer. */
export const outputReserve = ({ contextWindow, outputLimit = Infinity }: Limits): number =>
  Math.min(outputLimit, Math.floor(contextWindow / 4), 16_000)

/** A prompt with more tokens is compacted before it is sent. */
export const threshold = (limits: Limits): number => Math.floor(0.8 * (limits.contextWindow - outputReserve(limits)))

/** Tokens of the newest turns that a compaction leaves as they are. `size` is the window, or a prompt that was refused. */
export const kept = (size: number): number => Math.floor(0.3 * size)
