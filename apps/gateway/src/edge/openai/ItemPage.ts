import { Option } from "effect"

export interface Query {
  readonly limit?: number
  readonly order?: "asc" | "desc"
  readonly after?: string
}

/** A page of a list that is there as a whole, its oldest item first: the last one comes first unless the query says otherwise. None if there is no item to begin behind. */
export const make = <A extends { readonly id: string }>(
  items: ReadonlyArray<A>,
  { after, limit = 20, order = "desc" }: Query
) => {
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
