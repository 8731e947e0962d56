import { type Signal, useSignal } from "@preact/signals"
import { Component } from "preact"
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks"
import { now } from "../gateway/Clock.ts"
import type { LivePlan } from "../live/LivePlan.ts"
import { here, setQuery } from "../route/Location.ts"
import { Sign } from "../shell/Sign.tsx"
import { duration, elapsed } from "../text/Format.ts"
import { bar, formatRange, parseRange, type Range, within } from "./Axis.ts"
import { openRows, type Row, rowsOf } from "./Rows.ts"
import { TimeAxis, treeWidth } from "./TimeAxis.tsx"
import { scrolledTo, windowOf } from "./Window.ts"

/** As the style sheet has it, in pixels. */
const rowHeight = 28
const tallest = 16 * rowHeight

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

/** Keys of a treegrid (WAI-ARIA practices): up and down, left and right to close and open, Enter for the details. */
const useKeys = (
  rows: ReadonlyArray<Row>,
  active: Signal<string | undefined>,
  closed: Signal<ReadonlySet<string>>,
  reveal: (index: number) => void
) => {
  const toggle = (id: string, close: boolean) => {
    const next = new Set(closed.value)
    if (close) next.add(id)
    else next.delete(id)
    closed.value = next
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const index = rows.findIndex(({ id }) => id === active.value)
    const row = rows[index]
    const goTo = (target: number) => {
      const bounded = Math.min(Math.max(target, 0), rows.length - 1)
      active.value = rows[bounded]?.id
      reveal(bounded)
    }
    const hasChildren = row !== undefined && row.kind === "step"
    switch (event.key) {
      case "ArrowDown":
        goTo(index + 1)
        break
      case "ArrowUp":
        goTo(index - 1)
        break
      case "Home":
        goTo(0)
        break
      case "End":
        goTo(rows.length - 1)
        break
      case "PageDown":
        goTo(index + 10)
        break
      case "PageUp":
        goTo(index - 10)
        break
      case "ArrowLeft":
        if (hasChildren && !closed.value.has(row.id)) toggle(row.id, true)
        else if (row?.parent != null) goTo(rows.findIndex(({ id }) => id === row.parent))
        break
      case "ArrowRight":
        if (hasChildren && closed.value.has(row.id)) toggle(row.id, false)
        else if (hasChildren) goTo(index + 1)
        break
      case "Enter":
      case " ":
        if (row !== undefined) setQuery({ row: here.peek().query.get("row") === row.id ? null : row.id })
        break
      default:
        return
    }
    event.preventDefault()
  }
  return { onKeyDown, toggle }
}

/** Where the time of a plan went: a tree of what it did, and a bar for each. Only the rows in view are drawn. */
export const Timeline = ({ live }: { readonly live: LivePlan }) => {
  const view = live.view.value
  const plan = live.plan.value
  const closed = useSignal<ReadonlySet<string>>(new Set())
  const active = useSignal<string | undefined>(undefined)
  const top = useSignal(0)
  const grid = useRef<HTMLDivElement>(null)
  const selected = here.value.query.get("row")

  const all = useMemo(() => rowsOf(view), [view.steps, view.tasks, view.approvals, view.compactions, view.queue])
  const rows = useMemo(() => openRows(all, closed.value), [all, closed.value])

  const start = view.startedAt ?? Date.parse(plan?.created_at ?? "")
  const isLive = view.endedAt === null
  const end = view.endedAt ?? Math.max(now(), view.lastAt ?? 0)
  const whole = Math.max(end - start, 1)
  const range = parseRange(here.value.query.get("zoom")) ?? { from: 0, to: whole }
  const setRange = (next: Range | undefined) => {
    const zoom = next === undefined ? undefined : within(next, whole)
    setQuery({ zoom: zoom === undefined ? null : formatRange(zoom) })
  }

  const height = Math.min(rows.length * rowHeight, tallest)
  const shown = windowOf(rows.length, rowHeight, top.value, height)
  const reveal = (index: number) => {
    const box = grid.current
    if (box !== null) box.scrollTop = scrolledTo(index, rowHeight, box.scrollTop, box.clientHeight)
  }
  const { onKeyDown, toggle } = useKeys(rows, active, closed, reveal)

  const onClick = ({ target }: MouseEvent) => {
    const id = target instanceof Element ? target.closest(".line")?.id.replace(/^row-/, "") : undefined
    if (id === undefined || !(target instanceof Element)) return
    const isStep = rows.some((row) => row.id === id && row.kind === "step")
    if (isStep && target.closest(".twisty") !== null) return toggle(id, !closed.value.has(id))
    active.value = id
    setQuery({ row: selected === id ? null : id })
  }

  // A deep link shows its row, once the row is there.
  const isFound = useRef(false)
  useEffect(() => {
    const index = rows.findIndex(({ id }) => id === selected)
    if (isFound.current || index < 0) return
    isFound.current = true
    active.value = selected ?? undefined
    reveal(index)
  }, [rows.length])

  // What is new in a live plan stays in view for as long as nobody has scrolled up.
  const isAtEnd = useRef(isLive)
  useLayoutEffect(() => {
    const box = grid.current
    if (box !== null && isLive && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [rows.length])

  return (
    <section class="timeline" aria-labelledby="timeline" style={{ "--tree": `${treeWidth.value}px` }}>
      <h2 id="timeline">Timeline</h2>
      <TimeAxis range={range} whole={whole} isZoomed={here.value.query.has("zoom")} onRange={setRange} />
      <div
        ref={grid}
        role="treegrid"
        class="grid"
        tabIndex={0}
        aria-label="Timeline of the plan"
        aria-rowcount={rows.length + 1}
        aria-activedescendant={active.value === undefined ? undefined : `row-${active.value}`}
        style={{ height: `${Math.max(height, rowHeight)}px` }}
        onKeyDown={onKeyDown}
        onClick={onClick}
        onFocus={() => {
          active.value ??= rows[0]?.id
        }}
        onScroll={(event) => {
          const { clientHeight, scrollHeight, scrollTop } = event.currentTarget
          // Only what changes the rows that are drawn counts.
          top.value = scrollTop - (scrollTop % (rowHeight * 4))
          isAtEnd.current = scrollTop + clientHeight >= scrollHeight - rowHeight
        }}
      >
        <div role="row" aria-rowindex={1} class="unseen">
          <span role="columnheader">What</span>
          <span role="columnheader">Took</span>
        </div>
        <div role="rowgroup" class="lines" style={{ height: `${rows.length * rowHeight}px` }}>
          {rows.slice(shown.first, shown.end).map((row, offset) => (
            <Line
              key={row.id}
              row={row}
              index={shown.first + offset}
              start={start}
              end={end}
              from={range.from}
              to={range.to}
              isActive={active.value === row.id}
              isSelected={selected === row.id}
              isClosed={row.kind === "step" ? closed.value.has(row.id) : undefined}
            />
          ))}
        </div>
        {isLive && rows.length > 0 && end - start <= range.to ? (
          <div class="overlay" aria-hidden="true" style={{ height: `${rows.length * rowHeight}px` }}>
            <span class="now" style={{ left: `${((end - start - range.from) / (range.to - range.from)) * 100}%` }} />
          </div>
        ) : null}
        {rows.length > 0 ? null : (
          <p class="dim">
            {live.hearing.value === "polling" ? "Shown when the plan is over." : "Nothing has happened yet."}
          </p>
        )}
      </div>
    </section>
  )
}
