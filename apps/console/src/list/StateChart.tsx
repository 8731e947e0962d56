import type { Overview, PlanState } from "@bowline/client"
import { useSignal } from "@preact/signals"
import type { TargetedKeyboardEvent, TargetedPointerEvent } from "preact"
import { useRef } from "preact/hooks"
import { count } from "../text/Format.ts"
import { axisTime } from "./TimeRange.ts"

/** From the bottom of a bar to its top. What is not over stands on top: it has no outcome yet. */
const stacked = [
  "completed",
  "aborted",
  "failed",
  "waiting",
  "running",
  "queued"
] as const satisfies ReadonlyArray<PlanState>

type Stretch = Overview["stretches"][number]

export const totalOf = (plans: Overview["plans"]): number => stacked.reduce((sum, state) => sum + plans[state], 0)

/** `10:15: 12 completed, 1 failed`. */
const wordsOf = ({ at, plans }: Stretch, length: number): string => {
  const counts = stacked.filter((state) => plans[state] > 0).map((state) => `${count(plans[state])} ${state}`)
  return `${axisTime(Date.parse(at), length)}: ${counts.length === 0 ? "no plans" : counts.join(", ")}`
}

interface Selected {
  readonly from: number
  readonly to: number
}

const ordered = ({ from, to }: Selected) => ({ first: Math.min(from, to), last: Math.max(from, to) })

/**
 * Plans by their states over time, as bars of boxes. Each bar is a link to its plans. A drag, or Shift with the arrow keys and then Enter, selects a
 * range. The bars are one stop of the Tab key.
 */
export const StateChart = ({
  hrefOf,
  isSmall = false,
  label,
  onRange,
  overview: { since, step_ms, stretches, until }
}: {
  readonly label: string
  readonly overview: Overview
  readonly isSmall?: boolean
  readonly hrefOf: (since: string, until: string) => string
  readonly onRange: (since: string, until: string) => void
}) => {
  const list = useRef<HTMLUListElement>(null)
  const current = useSignal(stretches.length - 1)
  const selected = useSignal<Selected | undefined>(undefined)
  const isDragged = useRef(false)
  const length = Date.parse(until) - Date.parse(since)
  const highest = Math.max(1, ...stretches.map(({ plans }) => totalOf(plans)))

  /** The instants between which the plans of these bars were created: not before the range begins, and not behind its end. */
  const boundsOf = (first: number, last: number): readonly [since: string, until: string] => {
    const begin = Math.max(Date.parse(stretches[first]?.at ?? since), Date.parse(since))
    const end = Math.min(Date.parse(stretches[last]?.at ?? since) + step_ms, Date.parse(until))
    return [new Date(begin).toISOString(), new Date(end).toISOString()]
  }

  const choose = ({ first, last }: ReturnType<typeof ordered>) => {
    selected.value = undefined
    onRange(...boundsOf(first, last))
  }

  const focus = (index: number, isExtended: boolean) => {
    const next = Math.min(Math.max(index, 0), stretches.length - 1)
    selected.value = isExtended ? { from: selected.value?.from ?? current.value, to: next } : undefined
    current.value = next
    list.current?.querySelectorAll("a")[next]?.focus()
  }

  const onKeyDown = (event: TargetedKeyboardEvent<HTMLUListElement>) => {
    const moves: Readonly<Record<string, number>> = {
      ArrowLeft: current.value - 1,
      ArrowRight: current.value + 1,
      Home: 0,
      End: stretches.length - 1
    }
    const next = moves[event.key]
    if (next !== undefined) focus(next, event.shiftKey)
    else if (event.key === "Enter" && selected.value !== undefined) choose(ordered(selected.value))
    else if (event.key === "Escape" && selected.value !== undefined) selected.value = undefined
    else return
    event.preventDefault()
  }

  const barAt = (event: TargetedPointerEvent<HTMLUListElement>): number => {
    const { left, width } = event.currentTarget.getBoundingClientRect()
    const index = Math.floor(((event.clientX - left) / width) * stretches.length)
    return Math.min(Math.max(index, 0), stretches.length - 1)
  }

  const onPointerDown = (event: TargetedPointerEvent<HTMLUListElement>) => {
    isDragged.current = false
    if (event.button !== 0 || event.pointerType === "touch") return
    const from = barAt(event)
    selected.value = { from, to: from }
  }
  const onPointerMove = (event: TargetedPointerEvent<HTMLUListElement>) => {
    const before = selected.value
    if (before === undefined || event.buttons !== 1) return
    const to = barAt(event)
    if (to === before.to) return
    isDragged.current = true
    event.currentTarget.setPointerCapture(event.pointerId)
    selected.value = { ...before, to }
  }
  const onPointerUp = () => {
    const range = selected.value
    if (range === undefined) return
    if (isDragged.current) choose(ordered(range))
    else selected.value = undefined
  }

  const range = selected.value === undefined ? undefined : ordered(selected.value)
  return (
    <figure class={isSmall ? "chart small" : "chart"}>
      <ul
        ref={list}
        aria-label={label}
        onKeyDown={onKeyDown}
        onPointerDown={onPointerDown}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerCancel={() => {
          selected.value = undefined
        }}
        // What was a drag is no click on the bar at its end.
        onClickCapture={(event) => {
          if (isDragged.current) event.preventDefault()
          isDragged.current = false
        }}
      >
        {stretches.map((stretch, index) => (
          <li
            key={stretch.at}
            class={range !== undefined && index >= range.first && index <= range.last ? "chosen" : undefined}
          >
            <a
              href={hrefOf(...boundsOf(index, index))}
              aria-label={wordsOf(stretch, length)}
              title={wordsOf(stretch, length)}
              tabIndex={index === Math.min(current.value, stretches.length - 1) ? 0 : -1}
              draggable={false}
              onFocus={() => {
                current.value = index
              }}
            >
              {stacked.map((state) =>
                stretch.plans[state] === 0 ? null : (
                  <span key={state} class={state} style={{ height: `${(stretch.plans[state] / highest) * 100}%` }} />
                )
              )}
            </a>
          </li>
        ))}
      </ul>
      <figcaption class="dim">
        <span>{axisTime(Date.parse(since), length)}</span>
        <span>
          up to {count(highest)} in{" "}
          {step_ms < 60_000
            ? `${step_ms / 1_000} s`
            : step_ms < 3_600_000
              ? `${step_ms / 60_000} min`
              : `${step_ms / 3_600_000} h`}
        </span>
        <span>{axisTime(Date.parse(until), length)}</span>
      </figcaption>
    </figure>
  )
}
