import { Clock, Effect } from "effect"
import { styleText } from "node:util"
import { printLine, tell } from "./Output.ts"
import { columnsOf } from "./TerminalConfig.ts"
import { ago, fit, oneLine, widthOf } from "./TerminalText.ts"

/** A time in ISO 8601, which a terminal shows as `3m ago`. */
interface Time {
  readonly at: string
}

/** A column: its title, and its cell in a row. The first column has what other commands want to be told. */
export type Column<Row> = readonly [title: string, cell: (row: Row) => string | Time]

const gap = "  "

/** A longer cell of a terminal's table is cut, so that others have room. */
const maxCell = 60

/** The lines, in so many columns of a terminal. The first cell is never cut: it may be copied. What has no room is left out from the right. */
const layOut = (table: ReadonlyArray<ReadonlyArray<string>>, width: number): ReadonlyArray<string> => {
  const [titles = []] = table
  const widths = titles.map((_, column) => {
    const widest = Math.max(...table.map((row) => widthOf(row[column] ?? "")))
    return column === 0 ? widest : Math.min(widest, maxCell)
  })
  return table.map((row) => {
    let line = ""
    let used = 0
    for (const [column, cell] of row.entries()) {
      const start = column === 0 ? 0 : used + gap.length
      const room = Math.min(width - start, maxCell)
      if (column > 0 && room < widthOf(titles[column] ?? "")) break
      const text = column === 0 ? cell : fit(cell, room)
      line += `${" ".repeat(start - widthOf(line))}${text}`
      used = start + (widths[column] ?? 0)
    }
    return line.trimEnd()
  })
}

/**
 * Prints rows on stdout: for a terminal as a table that fits its width, under titles, with relative times; else one line a row, its
 * cells whole and separated by tabs. Where there are none, a terminal is told so.
 */
export const print = Effect.fnUntraced(function* <Row>(
  columns: ReadonlyArray<Column<Row>>,
  rows: ReadonlyArray<Row>,
  none: string
) {
  const now = yield* Clock.currentTimeMillis
  const { stdout } = process
  const cells = rows.map((row) =>
    columns.map(([, cell]) => {
      const value = cell(row)
      if (typeof value === "string") return oneLine(value)
      return stdout.isTTY && value.at !== "" ? ago(value.at, now) : oneLine(value.at)
    })
  )
  if (!stdout.isTTY) return yield* Effect.forEach(cells, (row) => printLine(row.join("\t")), { discard: true })
  if (rows.length === 0) return yield* tell(none)
  const [titles = "", ...lines] = layOut([columns.map(([title]) => title), ...cells], columnsOf(stdout))
  yield* printLine(styleText("bold", titles, { stream: stdout }))
  yield* Effect.forEach(lines, printLine, { discard: true })
})
