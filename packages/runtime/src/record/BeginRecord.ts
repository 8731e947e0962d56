import manifest from "../../package.json" with { type: "json" }
import type { SessionSummary } from "../store/SessionStore.ts"

/** The version that runs plans: all packages have the same one. */
export const { version } = manifest

/** What an agent or a server has told of its tools: as it is, or the digest of the text that is kept of it, where it is the operator's. */
export type Source = { readonly told: object } | { readonly digest: string }

/** What a process found when it got a plan. */
export interface BeginRecord {
  readonly type: "begin"
  readonly version: string
  /** The digest of what the operator has set and written: see `Environment`. */
  readonly environment: string
  /** Marks what comes from outside, for the model. */
  readonly delimiter: string
  /** The messages of the session that the prompt begins with, and what stands in place of those before. */
  readonly history: { readonly first: string; readonly last: string; readonly count: number } | null
  readonly summary?: Pick<SessionSummary, "covered_seq" | "priors" | "text">
  /** Whether another process had the plan before. */
  readonly resumed?: true
}

/** What agents and servers have told, by `card` or `server` and their names: as the plan began, and whenever a server has changed its tools. */
export interface SourcesRecord {
  readonly type: "sources"
  readonly sources: Readonly<Record<string, Source>>
}
