import type { Model } from "../provider/ModelTable.ts"

export type Limits = Pick<Model, "contextWindow" | "outputLimit">

/** Tokens of the window that are left for the answer. */
export const outputReserve = ({ contextWindow, outputLimit = Infinity }: Limits): number =>
  Math.min(outputLimit, Math.floor(contextWindow / 4), 16_000)

/** A prompt of more tokens is compacted before it is sent. */
export const threshold = (limits: Limits): number => Math.floor(0.8 * (limits.contextWindow - outputReserve(limits)))

/** How many tokens of the newest turns stay as they are, in a window, or in what was refused as too long. */
export const kept = (size: number): number => Math.floor(0.3 * size)
