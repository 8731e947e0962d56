import type { ReadonlySignal } from "@preact/signals"
import { Component } from "preact"
import { Sign } from "../shell/Sign.tsx"
import { duration, elapsed } from "../text/Format.ts"
import { bar, type Range } from "./Axis.ts"
import type { Row } from "./Rows.ts"
import { windowOf } from "./RowWindow.ts"

/** As the style sheet has it, in pixels. */
export const rowHeight = 28
export const tallest = 16 * rowHeight

/** Scrolling draws rows anew in blocks of so many. */
const block = 4

interface LineProps {
  readonly row: Row
  readonly index: number
  readonly start: number
  readonly end: number
  /** The range that is shown. */
  readonly from: number
  readonly to: number
  readonly isActive: boolean
  readonly isSelected: boolean
  /** Undefined for a row that cannot be closed. */
  readonly isClosed: boolean | undefined
}

/** One row. It is drawn anew only if something of it has changed: scrolling moves through thousands of them. */
class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps): boolean {
    const before: LineProps = this.props
    return (
      before.row !== next.row ||
      before.index !== next.index ||
      before.start !== next.start ||
      (before.end !== next.end && next.row.to === null) ||
      before.from !== next.from ||
      before.to !== next.to ||
      before.isActive !== next.isActive ||
      before.isSelected !== next.isSelected ||
      before.isClosed !== next.isClosed
    )
  }

  override render({ end, from, index, isActive, isClosed, isSelected, row, start, to }: LineProps) {
    const place = bar({ from: row.from - start, to: (row.to ?? end) - start }, { from, to })
    return (
      <div
        role="row"
        id={`row-${row.id}`}
        aria-level={row.level}
        aria-rowindex={index + 2}
        aria-selected={isSelected}
        aria-expanded={isClosed === undefined ? undefined : !isClosed}
        class={`line kind-${row.kind} ${isActive ? "active" : ""}`}
        style={{ transform: `translateY(${index * rowHeight}px)` }}
      >
        <div role="gridcell" class={`name level-${row.level}`}>
          <span class="twisty">{isClosed === undefined ? null : <Sign of={isClosed ? "closed" : "open"} />}</span>
          <span class={`tone-${row.tone}`}>
            <Sign of={row.tone} />
          </span>
          <span class="label">
            {row.label} <span class="dim">{row.state}</span>
          </span>
        </div>
        <div role="gridcell" class="length">
          {row.to === null ? elapsed(end - row.from) : duration(row.to - row.from)}
        </div>
        <div class="track" aria-hidden="true">
          {place === undefined ? null : (
            <span class={`bar tone-${row.tone}`} style={{ left: `${place.left}%`, width: `${place.width}%` }} />
          )}
        </div>
      </div>
    )
  }
}

/** Where the rows that are drawn begin: only what changes them counts. */
export const topOf = (scrollTop: number): number => scrollTop - (scrollTop % (rowHeight * block))

/** The rows in view. The keys of those that leave it are those of the ones that come into it: scrolling makes no elements. */
export const Lines = ({
  active,
  closed,
  end,
  height,
  range,
  rows,
  selected,
  start,
  top
}: {
  readonly rows: ReadonlyArray<Row>
  readonly top: ReadonlySignal<number>
  /** Of the box that they scroll in. */
  readonly height: number
  readonly start: number
  readonly end: number
  readonly range: Range
  readonly active: string | undefined
  readonly selected: string | null
  readonly closed: ReadonlySet<string>
}) => {
  const shown = windowOf(rows.length, rowHeight, top.value, height)
  return (
    <div role="rowgroup" class="lines" style={{ height: `${rows.length * rowHeight}px` }}>
      {rows.slice(shown.first, shown.end).map((row, offset) => (
        <Line
          key={(shown.first + offset) % (shown.end - shown.first)}
          row={row}
          index={shown.first + offset}
          start={start}
          end={end}
          from={range.from}
          to={range.to}
          isActive={active === row.id}
          isSelected={selected === row.id}
          isClosed={row.kind === "step" ? closed.has(row.id) : undefined}
        />
      ))}
    </div>
  )
}
