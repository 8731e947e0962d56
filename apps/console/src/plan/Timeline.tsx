import { type Signal, useSignal } from "@preact/signals"
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks"
import { now } from "../gateway/GatewayClock.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { here, setQuery } from "../route/Location.ts"
import { formatRange, parseRange, type Range, within } from "./Axis.ts"
import { Lines, rowHeight, tallest, topOf } from "./Lines.tsx"
import { later } from "../shell/Later.tsx"
import { openRows, type Row, rowsOf } from "./Rows.ts"
import { culpritOfPlan } from "./Outcome.tsx"
import { TimeAxis, treeWidth, useTimelineWidth } from "./TimeAxis.tsx"
import { scrolledTo } from "./RowWindow.ts"

const RowDetails = later(async () => (await import("../detail/RowDetails.tsx")).RowDetails)

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

/** Whether the details have room beside the timeline, as the style sheet says. */
const isWide = () => matchMedia("(min-width: 64rem)").matches

/** Where the time of a plan went: a tree of what it did, and a bar for each. Only the rows in view are drawn. */
export const Timeline = ({ live }: { readonly live: FollowedPlan }) => {
  const view = live.view.value
  const plan = live.plan.value
  const closed = useSignal<ReadonlySet<string>>(new Set())
  const active = useSignal<string | undefined>(undefined)
  const top = useSignal(0)
  const grid = useRef<HTMLDivElement>(null)
  const timeline = useRef<HTMLElement>(null)
  useTimelineWidth(timeline)
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

  // The row that the plan failed of is open, unless the link names another one. On a narrow window it would hide the outcome.
  const culprit = culpritOfPlan(live)
  const fault = culprit?.isFault === true ? culprit.row : undefined
  const isOpened = useRef(false)
  useEffect(() => {
    if (isOpened.current || fault === undefined || !rows.some(({ id }) => id === fault)) return
    isOpened.current = true
    if (here.peek().query.has("row")) return
    if (isWide()) return setQuery({ row: fault })
    active.value = fault
    reveal(rows.findIndex(({ id }) => id === fault))
  }, [rows.length, fault])

  // A deep link shows its row, once the row is there; so does a link of the page.
  useEffect(() => {
    const index = rows.findIndex(({ id }) => id === selected)
    if (index < 0 || selected === null) return
    active.value = selected
    reveal(index)
  }, [rows.length === 0, selected])

  const step = (by: number) => {
    const index = rows.findIndex(({ id }) => id === selected)
    const next = index < 0 ? undefined : rows[index + by]
    if (next !== undefined) setQuery({ row: next.id })
  }
  const close = () => {
    setQuery({ row: null })
    grid.current?.focus()
  }

  // What is new in a live plan stays in view for as long as nobody has scrolled up.
  const isAtEnd = useRef(isLive)
  useLayoutEffect(() => {
    const box = grid.current
    if (box !== null && isLive && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [rows.length])

  return (
    <div class={`work ${fault === undefined ? "" : "failed"}`}>
      <section ref={timeline} class="timeline" aria-labelledby="timeline" style={{ "--tree": `${treeWidth.value}px` }}>
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
            top.value = topOf(scrollTop)
            isAtEnd.current = scrollTop + clientHeight >= scrollHeight - rowHeight
          }}
        >
          <div role="row" aria-rowindex={1} class="unseen">
            <span role="columnheader">What</span>
            <span role="columnheader">Took</span>
          </div>
          <Lines
            rows={rows}
            top={top}
            height={height}
            start={start}
            end={end}
            range={range}
            active={active.value}
            selected={selected}
            closed={closed.value}
          />
          {isLive && rows.length > 0 && end - start <= range.to ? (
            <div class="overlay" aria-hidden="true" style={{ height: `${rows.length * rowHeight}px` }}>
              <span class="now" style={{ left: `${((end - start - range.from) / (range.to - range.from)) * 100}%` }} />
            </div>
          ) : null}
          {rows.length > 0 ? null : (
            <p class="dim">
              {live.hearing.value === "polling"
                ? "Shown when the plan is over."
                : isLive
                  ? "Nothing has happened yet."
                  : live.hearing.value === "over"
                    ? "Nothing happened."
                    : "Its events are on the way."}
            </p>
          )}
        </div>
      </section>
      {selected === null || !all.some(({ id }) => id === selected) ? null : (
        <RowDetails live={live} row={selected} onStep={step} onClose={close} />
      )}
    </div>
  )
}
