import { computed, signal, useSignal } from "@preact/signals"
import type { RefObject, TargetedPointerEvent } from "preact"
import { useLayoutEffect } from "preact/hooks"
import { marks, moved, type Range, zoomed } from "./Axis.ts"

/** How narrow and how wide the tree beside the bars can be, in pixels. */
const narrowest = 140
const widest = 640

/** The column between tree and bars with the border, and the scrollbar's place, as the style sheet has them, in pixels. */
const lengthWidth = 100

const wanted = signal(320)

/** How wide the timeline is, in pixels. */
const timelineWidth = signal(Number.POSITIVE_INFINITY)

/** A narrow window leaves the tree less than half. */
const widestHere = computed(() => Math.min(widest, Math.floor(timelineWidth.value * 0.48)))
const narrowestHere = computed(() => Math.min(narrowest, widestHere.value))

/** How wide the tree is, in pixels. */
export const treeWidth = computed(() => Math.min(wanted.value, widestHere.value))

const widen = (width: number) => {
  wanted.value = Math.min(Math.max(Math.round(width), narrowestHere.value), widestHere.value)
}

/** Keeps up with the width of the timeline. */
export const useTimelineWidth = (timeline: RefObject<HTMLElement | null>) => {
  useLayoutEffect(() => {
    if (timeline.current === null) return undefined
    const seen = new ResizeObserver(([entry]) => {
      if (entry !== undefined) timelineWidth.value = entry.contentRect.width
    })
    seen.observe(timeline.current)
    return () => seen.disconnect()
  }, [])
}

/** The width of the axis behind the tree and the column of lengths, in pixels. */
const axisWidth = () => Math.max(0, Math.min(timelineWidth.value, innerWidth) - treeWidth.value - lengthWidth)

/** The border between tree and bars, which can be moved by pointer and by keyboard. */
const Splitter = () => (
  <div
    role="separator"
    class="splitter"
    tabIndex={0}
    aria-orientation="vertical"
    aria-label="Width of the tree"
    aria-valuemin={narrowestHere.value}
    aria-valuemax={widestHere.value}
    aria-valuenow={treeWidth.value}
    onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
    onPointerMove={(event) => {
      if (!event.currentTarget.hasPointerCapture(event.pointerId)) return
      const left = event.currentTarget.closest(".timeline")?.getBoundingClientRect().left ?? 0
      widen(event.clientX - left)
    }}
    onKeyDown={(event) => {
      const step = event.key === "ArrowLeft" ? -20 : event.key === "ArrowRight" ? 20 : 0
      if (step !== 0) widen(treeWidth.value + step)
    }}
  />
)

/** The time since the plan's start above the bars. A drag over it zooms to a range; the buttons do so without a pointer. */
export const TimeAxis = ({
  isZoomed,
  onRange,
  range,
  whole
}: {
  readonly range: Range
  /** The length of the plan, in milliseconds. */
  readonly whole: number
  readonly isZoomed: boolean
  readonly onRange: (range: Range | undefined) => void
}) => {
  const drag = useSignal<Range | undefined>(undefined)

  /** The share of the axis that lies left of the pointer, in percent. */
  const share = (event: TargetedPointerEvent<HTMLDivElement>): number => {
    const box = event.currentTarget.getBoundingClientRect()
    return Math.min(100, Math.max(0, ((event.clientX - box.left) / Math.max(box.width, 1)) * 100))
  }
  const timeAt = (percent: number): number => range.from + ((range.to - range.from) * percent) / 100
  const ordered = drag.value === undefined ? undefined : [drag.value.from, drag.value.to].sort((a, b) => a - b)
  const [left = 0, right = 0] = ordered ?? []

  return (
    <div class="axis">
      <div class="zoom">
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => onRange(zoomed(range, 0.5, whole))}>
          +
        </button>
        <button
          type="button"
          class="quiet"
          aria-label="Zoom out"
          disabled={!isZoomed}
          onClick={() => onRange(zoomed(range, 2, whole))}
        >
          −
        </button>
        <button
          type="button"
          class="quiet"
          aria-label="Earlier"
          disabled={!isZoomed}
          onClick={() => onRange(moved(range, -0.5, whole))}
        >
          ‹
        </button>
        <button
          type="button"
          class="quiet"
          aria-label="Later"
          disabled={!isZoomed}
          onClick={() => onRange(moved(range, 0.5, whole))}
        >
          ›
        </button>
        <button type="button" class="quiet" disabled={!isZoomed} onClick={() => onRange(undefined)}>
          All
        </button>
      </div>
      <Splitter />
      <div
        class="marks"
        aria-hidden="true"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          drag.value = { from: share(event), to: share(event) }
        }}
        onPointerMove={(event) => {
          if (drag.value !== undefined) drag.value = { ...drag.value, to: share(event) }
        }}
        onPointerUp={() => {
          drag.value = undefined
          if (right - left > 1) onRange({ from: timeAt(left), to: timeAt(right) })
        }}
        onPointerCancel={() => {
          drag.value = undefined
        }}
      >
        {marks(range, axisWidth()).map(({ at, isBefore, label }) => (
          <span class={`mark ${isBefore ? "before" : ""}`} style={{ left: `${at}%` }}>
            {label}
          </span>
        ))}
        {ordered === undefined ? null : <span class="range" style={{ left: `${left}%`, width: `${right - left}%` }} />}
      </div>
    </div>
  )
}
