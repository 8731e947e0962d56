/** How one figure may grow over the second half of a soak: by a part of itself, or by so much. */
interface Bound {
  readonly name: string
  readonly unit: string
  readonly part: number
  readonly least: number
}

/** Memory that is not collected yet and a burst of plans move these; a leak of one thing a minute would move them more. */
export const bounds = {
  resident: { name: "resident memory", unit: "MiB", part: 0.1, least: 24 },
  heap: { name: "heap, collected", unit: "MiB", part: 0.1, least: 8 },
  fibers: { name: "fibers", unit: "", part: 0.25, least: 100 },
  files: { name: "open files", unit: "", part: 0.25, least: 40 },
  connections: { name: "connections to Postgres", unit: "", part: 0, least: 3 },
  leases: { name: "leases", unit: "", part: 0.25, least: 20 },
  running: { name: "plans that are not over", unit: "", part: 0.25, least: 20 }
} as const satisfies Readonly<Record<string, Bound>>

/** What was seen at one instant, in the units of the bounds. */
export type Sample = { readonly [name in keyof typeof bounds]: number } & { readonly seconds: number }

const mean = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0) / values.length

/** The median slope of the lines through each two of these points (Theil and Sen): a burst that one sample has met does not count as growth. */
export const slope = (points: ReadonlyArray<readonly [x: number, y: number]>): number => {
  const slopes = points.flatMap(([x0, y0], index) => points.slice(index + 1).map(([x, y]) => (y - y0) / (x - x0)))
  return slopes.toSorted((a, b) => a - b)[slopes.length >> 1] ?? 0
}

/** A row for each figure: at the begin, in the middle, at the end, its growth over the second half, and whether that is too much. */
export const judge = (samples: ReadonlyArray<Sample>) => {
  const half = samples.slice(Math.floor(samples.length / 2))
  const [first, middle, last] = [samples[0], half[0], samples.at(-1)]
  if (first === undefined || middle === undefined || last === undefined) throw new Error("There are no samples")
  const seconds = last.seconds - middle.seconds
  return Object.entries(bounds).map(([key, { least, name, part, unit }]) => {
    const at = key as keyof typeof bounds
    const grown = slope(half.map((sample) => [sample.seconds, sample[at]])) * seconds
    const most = Math.max(least, part * mean(half.map((sample) => sample[at])))
    const show = (value: number) => `${value.toFixed(unit === "" ? 0 : 1)}${unit === "" ? "" : ` ${unit}`}`
    const row = [name, show(first[at]), show(middle[at]), show(last[at]), `${show(grown)} ≤ ${show(most)}`]
    return { row, isFlat: grown <= most }
  })
}
