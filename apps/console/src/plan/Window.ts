/** Which rows of a long list are drawn: those in view and some around them. */
export interface Window {
  readonly first: number
  /** Behind the last one. */
  readonly end: number
}

const around = 8

/** The most rows that are drawn at once in a box of this height. */
export const mostDrawn = (rowHeight: number, height: number): number => Math.ceil(height / rowHeight) + 1 + 2 * around

/** The rows of a list to draw. All have the same height; lengths are in pixels. */
export const windowOf = (rows: number, rowHeight: number, top: number, height: number): Window => ({
  first: Math.min(rows, Math.max(0, Math.floor(top / rowHeight) - around)),
  end: Math.min(rows, Math.ceil((top + height) / rowHeight) + around)
})

/** Where to scroll so that a row is in view; the same place if it is. */
export const scrolledTo = (index: number, rowHeight: number, top: number, height: number): number => {
  const start = index * rowHeight
  if (start < top) return start
  return start + rowHeight > top + height ? start + rowHeight - height : top
}
