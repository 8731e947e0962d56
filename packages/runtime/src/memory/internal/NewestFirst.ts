import type { Page, PageRequest } from "../../store/Page.ts"

export const newestFirst = <A extends { readonly ordinal: number }, B>(
  records: Iterable<A>,
  { limit, cursor = Infinity }: PageRequest,
  show: (record: A) => B
): Page<B> => {
  const found = Array.from(records)
    .filter((record) => record.ordinal < cursor)
    .sort((a, b) => b.ordinal - a.ordinal)
  const items = found.slice(0, limit)
  return { items: items.map(show), next: found.length > limit ? (items.at(-1)?.ordinal ?? null) : null }
}
