import type { CredentialRow } from "../store/CredentialStore.ts"

export type CredentialChoice =
  | { readonly _tag: "Free"; readonly id: string }
  /** Milliseconds until one is free again; 0 if it was only to be avoided. */
  | { readonly _tag: "None"; readonly retryAfterMs: number }

/** Milliseconds until no window binds the credential for this model any more. */
const leftMs = (rows: ReadonlyArray<CredentialRow>, id: string, model: string): number =>
  rows.reduce(
    (left, row) =>
      row.window !== null &&
      (row.credential === null || row.credential === id) &&
      (row.model === null || row.model === model)
        ? Math.max(left, row.window.leftMs)
        : left,
    0
  )

/**
 * Which credential to ask with: the preferred one, else the one that was not used for the longest time,
 * of those that no window binds. `ids` are in the order of the configuration, which decides between equals.
 */
export const choose = (
  ids: ReadonlyArray<string>,
  rows: ReadonlyArray<CredentialRow>,
  {
    model,
    prefer,
    avoid,
    lastUsed
  }: {
    readonly model: string
    readonly prefer: string | null
    readonly avoid: ReadonlySet<string>
    readonly lastUsed: (id: string) => number
  }
): CredentialChoice => {
  const left = ids.map((id) => leftMs(rows, id, model))
  const free = ids.filter((id, index) => left[index] === 0 && !avoid.has(id))
  const [first, ...others] = free
  if (first === undefined) return { _tag: "None", retryAfterMs: Math.min(...left) }
  if (prefer !== null && free.includes(prefer)) return { _tag: "Free", id: prefer }
  return { _tag: "Free", id: others.reduce((best, id) => (lastUsed(id) < lastUsed(best) ? id : best), first) }
}
