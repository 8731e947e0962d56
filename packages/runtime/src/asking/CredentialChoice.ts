import type { CredentialRow } from "../store/CredentialStore.ts"
import { type Binding, isPassing, soonest } from "./CredentialWindow.ts"

export type CredentialChoice =
  | { readonly _tag: "Free"; readonly id: string }
  /** `binding` keeps the plan from asking; undefined if a credential is free and to be avoided. */
  | { readonly _tag: "None"; readonly binding: Binding | undefined }

/** What binds the credential for this model: of several windows the last to end, but one that does not pass before those that do. */
const bindingOf = (rows: ReadonlyArray<CredentialRow>, id: string, model: string): Binding | undefined => {
  const windows = rows.flatMap(({ window, ...row }) =>
    window !== null && (row.credential === null || row.credential === id) && (row.model === null || row.model === model)
      ? [{ ...window, credential: id }]
      : []
  )
  const [first] = windows.toSorted((a, b) => Number(isPassing(a)) - Number(isPassing(b)) || b.leftMs - a.leftMs)
  return first && { ...first, leftMs: Math.max(...windows.map(({ leftMs }) => leftMs)) }
}

/**
 * Chooses among the credentials that no window binds: the preferred one, else the one that is unused for the longest time.
 * `ids` are in the order of the configuration, which decides between equals.
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
  const bindings = ids.map((id) => bindingOf(rows, id, model))
  const unbound = ids.filter((_, index) => bindings[index] === undefined)
  const free = unbound.filter((id) => !avoid.has(id))
  const [first, ...others] = free
  if (first === undefined) {
    const binding = unbound.length > 0 ? undefined : soonest(bindings.filter((binding) => binding !== undefined))
    return { _tag: "None", binding }
  }
  if (prefer !== null && free.includes(prefer)) return { _tag: "Free", id: prefer }
  return { _tag: "Free", id: others.reduce((best, id) => (lastUsed(id) < lastUsed(best) ? id : best), first) }
}
