import { signal, useSignal } from "@preact/signals"
import type { TargetedPointerEvent } from "preact"
import { marks, moved, type Range, zoomed } from "./Axis.ts"

/** How narrow and how wide the tree beside the bars can be, in pixels. */
const narrowest = 140
const widest = 640

/** How wide the tree is, in pixels. A narrow window leaves it less. */
export const treeWidth = signal(320)

const widen = (width: number) => {
  treeWidth.value = Math.min(Math.max(Math.round(width), narrowest), widest)
}

/** The border between tree and bars, which can be moved by pointer and by keyboard. */
const Splitter = () => (
  <div
    role="separator"
    class="splitter"
    tabIndex={0}
    aria-orientation="vertical"
    aria-label="Width of the tree"
    aria-valuemin={narrowest}
    aria-valuemax={widest}
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
        {marks(range, innerWidth < 640 ? 2 : 6).map(({ at, label }) => (
          <span class="mark" style={{ left: `${at}%` }}>
            {label}
          </span>
        ))}
        {ordered === undefined ? null : <span class="range" style={{ left: `${left}%`, width: `${right - left}%` }} />}
      </div>
    </div>
  )
}
