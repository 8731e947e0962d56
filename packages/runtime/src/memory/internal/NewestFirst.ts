import type { Page, PageRequest } from "../../store/Page.ts"

export const newestFirst = <A extends { readonly ordinal: number }, B>(
  records: Iterable<A>,
  { cursor, limit, oldestFirst = false }: PageRequest & { readonly oldestFirst?: boolean },
  show: (record: A) => B
): Page<B> => {
  const sign = oldestFirst ? 1 : -1
  const found = Array.from(records)
    .filter(({ ordinal }) => cursor === undefined || sign * (ordinal - cursor) > 0)
    .sort((a, b) => sign * (a.ordinal - b.ordinal))
  const items = found.slice(0, limit)
  return { items: items.map(show), next: found.length > limit ? (items.at(-1)?.ordinal ?? null) : null }
}
