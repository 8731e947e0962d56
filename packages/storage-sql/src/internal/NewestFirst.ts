import type { Page } from "@bowline/runtime/unstable/store/Page"

/** Makes a page of rows that were read in the order of the list, with one row more than `limit` if the page is not the last one. */
export const newestFirst = <Row extends { readonly ordinal: bigint }, A>(
  rows: ReadonlyArray<Row>,
  limit: number,
  show: (row: Row) => A
): Page<A> => {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  return { items: shown.map(show), next: rows.length > limit && last !== undefined ? Number(last.ordinal) : null }
}
