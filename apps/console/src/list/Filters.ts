import type { PlanState } from "@bowline/client"

/** The filters of `GET /plans`, as they stand in the URL. */
export interface Filters {
  readonly state: ReadonlyArray<PlanState>
  readonly q: string
  readonly model: string
  readonly error_code: string
  readonly session_id: string
  readonly caller: string
  /** `2026-05-01T10:00`: a minute of the reader's own clock. */
  readonly since: string
  readonly until: string
}

export const states = [
  "queued",
  "running",
  "completed",
  "failed",
  "aborted"
] as const satisfies ReadonlyArray<PlanState>

const texts = ["q", "model", "error_code", "session_id", "caller", "since", "until"] as const

const isState = (text: string): text is PlanState => states.some((state) => state === text)

/** Reads the filters of a URL. What is none is not there. */
export const filtersOf = (query: URLSearchParams): Filters => {
  const [q, model, error_code, session_id, caller, since, until] = texts.map((name) => query.get(name) ?? "")
  return {
    state: [...new Set(query.getAll("state"))].filter(isState),
    q: q ?? "",
    model: model ?? "",
    error_code: error_code ?? "",
    session_id: session_id ?? "",
    caller: caller ?? "",
    since: since ?? "",
    until: until ?? ""
  }
}

/** How many filters are set. */
export const active = (filters: Filters): number =>
  texts.filter((name) => filters[name] !== "").length + (filters.state.length > 0 ? 1 : 0)

const instant = (minute: string): string | undefined => {
  const time = new Date(minute)
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}

/** The same filters as the API takes them: only those that are set, instants in UTC. */
export const asked = (filters: Filters): Record<string, string | ReadonlyArray<string>> => {
  const entries = texts.map((name): readonly [string, string | undefined] => [
    name,
    name === "since" || name === "until" ? instant(filters[name]) : filters[name].trim()
  ])
  const set = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined && entry[1] !== "")
  return { ...Object.fromEntries(set), ...(filters.state.length > 0 ? { state: filters.state } : {}) }
}
