import type { CredentialRow } from "../store/CredentialStore.ts"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Array as Arrays } from "effect"

/**
 * What a failure puts aside: a credential, one model on a credential, or one model on every credential of its provider.
 * `durations` are milliseconds: those of the first window, of the next one if no attempt succeeds in between, and so on. All
 * further windows last as long as the last one.
 */
export interface CredentialWindow {
  readonly scope: "credential" | "credential_model" | "model"
  readonly durations: Arrays.NonEmptyReadonlyArray<number>
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

const cooldown: CredentialWindow = {
  scope: "credential_model",
  durations: [30 * second, minute, 5 * minute]
}

const rejected: CredentialWindow = {
  scope: "credential",
  durations: [10 * minute, 20 * minute, 40 * minute, 60 * minute]
}

const unpaid: CredentialWindow = { scope: "credential", durations: [5 * hour, 10 * hour, 20 * hour, 24 * hour] }

const until = (window: CredentialWindow, retryAfterMs: number | undefined): CredentialWindow =>
  retryAfterMs === undefined ? window : { ...window, durations: [retryAfterMs] }

/**
 * The window that a failure opens, by the table of `docs/reference/provider.md`; undefined if the credential is not to blame.
 * `stage` is the stage of the plan: a credential is blamed in the stages `provider` and `compaction` only, and for silence only
 * in the stage `provider`.
 */
export const windowFor = (reason: ProviderErrorReason, stage: Stage): CredentialWindow | undefined => {
  if (stage !== "provider" && stage !== "compaction") return undefined
  switch (reason._tag) {
    case "rate_limited":
      return until(cooldown, reason.retryAfterMs)
    case "first_token_timeout":
    case "idle_timeout":
      return stage === "provider" ? cooldown : undefined
    case "auth":
      return rejected
    case "billing":
      return until(unpaid, reason.retryAfterMs)
    case "model_unavailable":
      return { scope: "model", durations: [5 * minute] }
    default:
      return undefined
  }
}

export type CredentialChoice =
  | { readonly _tag: "Free"; readonly id: string }
  /** Milliseconds until a credential is free again; 0 if one is free and to be avoided. */
  | { readonly _tag: "None"; readonly retryAfterMs: number }

/** Milliseconds until the last window that binds the credential for this model ends. */
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
  const left = ids.map((id) => leftMs(rows, id, model))
  const free = ids.filter((id, index) => left[index] === 0 && !avoid.has(id))
  const [first, ...others] = free
  if (first === undefined) return { _tag: "None", retryAfterMs: Math.min(...left) }
  if (prefer !== null && free.includes(prefer)) return { _tag: "Free", id: prefer }
  return { _tag: "Free", id: others.reduce((best, id) => (lastUsed(id) < lastUsed(best) ? id : best), first) }
}
