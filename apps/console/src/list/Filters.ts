import type { PlanState } from "@bowline/client"
import { beginOf, instantOf, type SpanName, spanOf } from "./TimeRange.ts"

/** The filters that are one text, by their names in the API and in the URL. */
export const texts = [
  "q",
  "model",
  "error_code",
  "reason",
  "tool",
  "agent",
  "feedback",
  "label",
  "metadata",
  "session_id",
  "caller",
  "since",
  "until"
] as const
export type TextFilter = (typeof texts)[number]

/** The filters of `GET /plans`, as they stand in the URL. `since` and `until` may be minutes of the reader's own clock. */
export interface Filters extends Readonly<Record<TextFilter, string>> {
  readonly state: ReadonlyArray<PlanState>
  /** How far it looks back from now; undefined if `since` and `until` say it, or nothing does. */
  readonly last: SpanName | undefined
}

export const states = [
  "queued",
  "running",
  "waiting",
  "completed",
  "failed",
  "aborted"
] as const satisfies ReadonlyArray<PlanState>

const isState = (text: string): text is PlanState => states.some((state) => state === text)

/** Reads the filters of a URL. What is none is not there. */
export const filtersOf = (query: URLSearchParams): Filters => {
  const read = (name: TextFilter) => query.get(name) ?? ""
  const last = spanOf(query.get("last"), undefined)
  return {
    state: [...new Set(query.getAll("state"))].filter(isState),
    last,
    q: read("q"),
    model: read("model"),
    error_code: read("error_code"),
    reason: read("reason"),
    tool: read("tool"),
    agent: read("agent"),
    feedback: read("feedback"),
    label: read("label"),
    metadata: read("metadata"),
    session_id: read("session_id"),
    caller: read("caller"),
    since: last === undefined ? read("since") : "",
    until: last === undefined ? read("until") : ""
  }
}

/** How many filters are set. */
export const active = (filters: Filters): number =>
  texts.filter((name) => filters[name] !== "").length +
  (filters.state.length > 0 ? 1 : 0) +
  (filters.last === undefined ? 0 : 1)

/** The same filters as the API takes them at this time, in epoch milliseconds: only those that are set, instants in UTC. */
export const asked = (filters: Filters, now: number): Record<string, string | ReadonlyArray<string>> => {
  const entries = texts.map((name): readonly [string, string | undefined] => [
    name,
    name === "since" || name === "until" ? instantOf(filters[name]) : filters[name].trim()
  ])
  const set = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined && entry[1] !== "")
  return {
    ...Object.fromEntries(set),
    ...(filters.last === undefined ? {} : { since: beginOf(filters.last, now) }),
    ...(filters.state.length > 0 ? { state: filters.state } : {})
  }
}
