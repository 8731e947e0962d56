import type { WriteStream } from "node:tty"

/** Whether lines on this stream can be written again: somebody looks at it. */
export const isWatched = ({ isTTY }: WriteStream): boolean => isTTY && process.env["TERM"] !== "dumb"

/** The columns of the terminal. `COLUMNS` wins, as it does for `ls`. */
export const columnsOf = ({ columns }: WriteStream): number => {
  const named = Number(process.env["COLUMNS"])
  return Number.isSafeInteger(named) && named > 0 ? named : columns || 80
}
