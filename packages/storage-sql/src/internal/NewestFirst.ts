import type { Page } from "@bowline/runtime/store/Page"

/** A page out of rows that were read newest first, one more than `limit` of them if there are. */
export const newestFirst = <Row extends { readonly ordinal: bigint }, A>(
  rows: ReadonlyArray<Row>,
  limit: number,
  show: (row: Row) => A
): Page<A> => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return { items: shown.map(show), next: rows.length > limit && last !== undefined ? Number(last.ordinal) : null }
}
