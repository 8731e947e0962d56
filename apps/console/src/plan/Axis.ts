import { duration } from "../text/Format.ts"

/** A range of time in milliseconds since the plan's start. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** `1200-5400` as it stands in the URL. */
export const parseRange = (text: string | null): Range | undefined => {
  const match = /^(\d{1,12})-(\d{1,12})$/.exec(text ?? "")
  const [from, to] = [Number(match?.[1]), Number(match?.[2])]
  return match === null || to <= from ? undefined : { from, to }
}

export const formatRange = ({ from, to }: Range): string => `${Math.round(from)}-${Math.round(to)}`

/** The shortest range that can be looked at, in milliseconds. */
const shortest = 10

/** A range around the same middle, larger or smaller by a factor, within the whole. */
export const zoomed = ({ from, to }: Range, factor: number, whole: number): Range | undefined => {
  const half = Math.max(((to - from) * factor) / 2, shortest / 2)
  const middle = (from + to) / 2
  return within({ from: middle - half, to: middle + half }, whole)
}

/** The same range elsewhere. `share` is how much of its own length it moves. */
export const moved = ({ from, to }: Range, share: number, whole: number): Range | undefined => {
  const by = Math.min(Math.max((to - from) * share, -from), Math.max(0, whole - to))
  return within({ from: from + by, to: to + by }, whole)
}

/** A range that lies in the whole; undefined if it is the whole. */
export const within = (range: Range, whole: number): Range | undefined => {
  const from = Math.max(0, Math.round(range.from))
  const to = Math.min(whole, Math.max(Math.round(range.to), from + shortest))
  return from === 0 && to >= whole ? undefined : { from, to }
}

const steps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000
]

/** What a mark and a label take, in pixels: more than any font needs. */
const markEvery = 90
const widthOf = (label: string): number => 8 + label.length * 7

export interface Mark {
  /** In percent of the range. */
  readonly at: number
  /** The time since the start; empty where there is no room for it. */
  readonly label: string
  /** Whether the label stands in front of the mark: behind it the axis ends. */
  readonly isBefore: boolean
}

/** The marks of an axis of so many pixels. No label is cut, and none lies over another one. */
export const marks = ({ from, to }: Range, width: number): ReadonlyArray<Mark> => {
  const length = Math.max(to - from, 1)
  const most = Math.max(1, Math.min(6, width / markEvery))
  const step = steps.find((size) => length / size <= most) ?? 86_400_000
  const first = Math.ceil(from / step) * step
  const amount = Math.max(0, Math.floor((to - first) / step) + 1)
  let taken = 0
  return Array.from({ length: amount }, (_, index) => {
    const time = first + index * step
    const at = ((time - from) / length) * 100
    const label = time === 0 ? "0" : duration(time)
    const place = (at / 100) * width
    const isBefore = place + widthOf(label) > width
    const isShown = !isBefore || place - widthOf(label) >= taken
    if (isShown) taken = isBefore ? place : place + widthOf(label)
    return { at, label: isShown ? label : "", isBefore }
  })
}

/** Where a bar lies on the axis in percent, or undefined if it is not in the range. */
export const bar = (
  { from, to }: Range,
  range: Range
): { readonly left: number; readonly width: number } | undefined => {
  if (to < range.from || from > range.to) return undefined
  const length = Math.max(range.to - range.from, 1)
  const left = Math.max(0, ((from - range.from) / length) * 100)
  return { left, width: Math.min(100, ((to - range.from) / length) * 100) - left }
}
