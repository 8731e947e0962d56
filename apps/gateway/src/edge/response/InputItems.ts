import type { PlanId } from "@bowline/domain/plan/Plan"
import { Option } from "effect"
import type { ResponseEcho } from "./ResponseEcho.ts"
import { inputId } from "./ResponseItems.ts"

interface Query {
  readonly limit?: number
  readonly order?: "asc" | "desc"
  readonly after?: string
}

/** A page of what a response was asked. None if there is no item to begin behind. */
export const page = (plan: PlanId, input: ResponseEcho["input"], { after, limit = 20, order = "desc" }: Query) => {
  const items = input.map((item, index) => ({ ...item, id: inputId(plan, index) }))
  const ordered = order === "asc" ? items : items.toReversed()
  const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && from === 0) return Option.none()
  const data = ordered.slice(from, from + limit)
  return Option.some({
    object: "list" as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < ordered.length
  })
}
