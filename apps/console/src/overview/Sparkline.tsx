const width = 96
const height = 20

/** The lines through what is known; where nothing is known there is a gap. */
export const pathOf = (points: ReadonlyArray<number | null>): string => {
  const known = points.filter((point) => point !== null)
  const highest = Math.max(1, ...known)
  const step = width / Math.max(points.length - 1, 1)
  let isDrawing = false
  return points
    .flatMap((point, index) => {
      if (point === null) {
        isDrawing = false
        return []
      }
      const command = isDrawing ? "L" : "M"
      isDrawing = true
      // A point alone is a short line, which can be seen.
      const [x, y] = [(index * step).toFixed(1), (height - 1 - (point / highest) * (height - 2)).toFixed(1)]
      return command === "M" ? [`M${x} ${y}h1`] : [`L${x} ${y}`]
    })
    .join("")
}

/** How a length went over time. The numbers beside it say what matters. */
export const Sparkline = ({ points }: { readonly points: ReadonlyArray<number | null> }) =>
  points.filter((point) => point !== null).length < 2 ? null : (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={pathOf(points)} />
    </svg>
  )
