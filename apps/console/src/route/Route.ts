/** The pages of the console. Their paths are those of the API: one URL, two answers. */
export type Route =
  | {
      readonly page:
        | "ask"
        | "overview"
        | "usage"
        | "plans"
        | "sessions"
        | "schedules"
        | "waiting"
        | "approvals"
        | "accounts"
        | "peers"
        | "credentials"
    }
  | { readonly page: "plan" | "session" | "schedule"; readonly id: string }
  | { readonly page: "unknown" }

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const pagesOfOne: Readonly<Record<string, "plan" | "session" | "schedule">> = {
  plans: "plan",
  sessions: "session",
  schedules: "schedule"
}

/** The page of a path. */
export const parse = (path: string): Route => {
  const [first = "", second = "", ...rest] = path.replace(/\/$/, "").split("/").slice(1)
  if (rest.length > 0) return { page: "unknown" }
  if (second === "") {
    switch (first) {
      case "":
        return { page: "ask" }
      case "overview":
      case "usage":
      case "plans":
      case "sessions":
      case "schedules":
      case "waiting":
      case "approvals":
      case "accounts":
      case "peers":
      case "credentials":
        return { page: first }
      default:
        return { page: "unknown" }
    }
  }
  const id = decoded(second)
  if (id === undefined) return { page: "unknown" }
  const page = pagesOfOne[first]
  return page === undefined ? { page: "unknown" } : { page, id }
}

export const planHref = (id: string): string => `/plans/${encodeURIComponent(id)}`
export const scheduleHref = (id: string): string => `/schedules/${encodeURIComponent(id)}`
export const sessionHref = (id: string): string => `/sessions/${encodeURIComponent(id)}`

/** A query with some of its parameters changed; null takes one away. */
export const changed = (
  query: URLSearchParams,
  changes: Readonly<Record<string, string | ReadonlyArray<string> | null>>
): string => {
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name)
    for (const one of value === null ? [] : [value].flat()) if (one !== "") next.append(name, one)
  }
  const text = next.toString()
  return text === "" ? "" : `?${text}`
}
