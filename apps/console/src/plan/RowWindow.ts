/** Which rows of a long list are drawn: those in view and some around them. */
export interface RowWindow {
  readonly first: number
  /** Behind the last one. */
  readonly end: number
}

const around = 8

/** The rows of a list to draw: as many wherever it is scrolled to. All have the same height; lengths are in pixels. */
export const windowOf = (rows: number, rowHeight: number, top: number, height: number): RowWindow => {
  const size = Math.min(rows, Math.ceil(height / rowHeight) + 1 + 2 * around)
  const first = Math.min(rows - size, Math.max(0, Math.floor(top / rowHeight) - around))
  return { first, end: first + size }
}

/** Where to scroll so that a row is in view; the same place if it is. */
export const scrolledTo = (index: number, rowHeight: number, top: number, height: number): number => {
  const start = index * rowHeight
  if (start < top) return start
  return start + rowHeight > top + height ? start + rowHeight - height : top
}
