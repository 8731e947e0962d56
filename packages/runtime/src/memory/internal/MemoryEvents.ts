import { bytesOf, type EventRow, pageBytes } from "../../store/EventRow.ts"

/** The place of the first of these rows, which stand in their order, that holds an event behind this one. */
const firstBehind = (rows: ReadonlyArray<EventRow>, seq: number): number => {
  let from = 0
  let to = rows.length
  while (from < to) {
    const middle = (from + to) >> 1
    const row = rows[middle]
    if (row !== undefined && row.seq + row.count - 1 <= seq) from = middle + 1
    else to = middle
  }
  return from
}

/** The rows from the one that holds the event `after + 1`, as many as a page has. */
export const pageOf = (rows: ReadonlyArray<EventRow>, after: number, limit: number): ReadonlyArray<EventRow> => {
  const page: Array<EventRow> = []
  let bytes = 0
  for (let at = firstBehind(rows, after); page.length < limit && bytes < pageBytes; at++) {
    const row = rows[at]
    if (row === undefined) break
    page.push(row)
    bytes += bytesOf(row)
  }
  return page
}

/** Whether the event is there. It looks from the end, where the events of a commit are that is repeated. */
export const hasEvent = (rows: ReadonlyArray<EventRow>, seq: number): boolean =>
  rows.findLast((row) => row.seq <= seq)?.seq === seq
