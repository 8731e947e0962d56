import type { OpenStreams } from "../load/OpenStreams.ts"
import type { PeerLatency } from "../load/PeerLatency.ts"
import type { StoreGrowth } from "../load/StoreGrowth.ts"
import { type Load, median, type LoadWindow } from "../load/LoadWindow.ts"

export type LoadName = "few" | "usual" | "many" | "alone"

export const loadNames: ReadonlyArray<LoadName> = ["few", "usual", "many", "alone"]
export const loads: { readonly [name in LoadName]: Load } = {
  few: { chunks: 2, concurrency: 32 },
  usual: { chunks: 32, concurrency: 32 },
  many: { chunks: 256, concurrency: 32 },
  alone: { chunks: 32, concurrency: 1 }
}

/** What was measured of the floor, or of a gateway with a store. What was left out is undefined. */
export interface Measured {
  readonly name: "floor" | "memory" | "postgres"
  readonly label: string
  readonly windows: { readonly [name in LoadName]: Array<LoadWindow> }
  streams: OpenStreams | undefined
  peers: PeerLatency | undefined
  /** What a plan of a session that has grown costs, to one of a young session. */
  growth: number | undefined
  /** What takes how long in a store that has grown, to a young one. */
  storeGrowth: StoreGrowth | undefined
}

const cpuLimits = { floor: Infinity, memory: 4, postgres: 8 }
const firstTokenLimits = { floor: Infinity, memory: 1.5, postgres: 4 }
const memoryLimit = 200
const closedLimit = 100
const startLimit = 1_500
const growthLimit = 1.2
const peerLimits = { once: 10, stream: 10, poll: 20 }

const of = ({ windows }: Measured, load: LoadName, value: (window: LoadWindow) => number): number =>
  median(windows[load].map(value))

const cpu = (measured: Measured, load: LoadName) => of(measured, load, ({ cpuPerPlan }) => cpuPerPlan)

/** Milliseconds of CPU that a chunk costs: the slope of a line through few and many chunks. */
const perChunk = (measured: Measured): number =>
  (cpu(measured, "many") - cpu(measured, "few")) / (loads.many.chunks - loads.few.chunks)

const show = (value: number): string => value.toFixed(value < 10 ? 2 : 0)

/** A value, and whether it is within its limit. */
export const verdict = (value: number | undefined, limit: number, unit: string): string => {
  if (value === undefined) return ""
  return limit === Infinity
    ? `${show(value)}${unit}`
    : `${show(value)}${unit} ${value <= limit ? "≤" : ">"} ${limit}${unit}`
}

const hasLimit = (load: LoadName): boolean => load === "usual" || load === "alone"
const describe = (load: LoadName): string => `${loads[load].chunks} chunks, ${loads[load].concurrency} at once`

/** The operations of a store that has grown. */
const grownOf = (measured: ReadonlyArray<Measured>): ReadonlyArray<string> =>
  Array.from(new Set(measured.flatMap(({ storeGrowth }) => Object.keys(storeGrowth?.operations ?? {}))))

/** What it takes to start on an embedded database. */
export const startLine = ({ first, later }: { readonly first: number; readonly later: number }): string =>
  `Start to ready, embedded: ${verdict(later, startLimit, " ms")}; with a new folder ${show(first)} ms.`

/** Rows of what was measured, with the ratio to the floor, and the target where there is one. */
export const table = (floor: Measured, gateways: ReadonlyArray<Measured>): string => {
  const all = [floor, ...gateways]
  const ratios = (
    what: string,
    unit: string,
    value: (measured: Measured) => number,
    limit: (gateway: Measured) => number = () => Infinity
  ) => [
    what,
    `${show(value(floor))}${unit}`,
    ...gateways.flatMap((gateway) => [
      `${show(value(gateway))}${unit}`,
      verdict(value(gateway) / value(floor), limit(gateway), " ×")
    ])
  ]
  const alone = (what: string, values: (gateway: Measured) => string) => [
    what,
    "",
    ...gateways.flatMap((gateway) => ["", values(gateway)])
  ]
  const stream = (what: string, unit: string, limit: number, value: (streams: OpenStreams) => number) => {
    const of = ({ streams }: Measured) => streams && value(streams)
    return [
      what,
      verdict(of(floor), Infinity, unit),
      ...gateways.flatMap((gateway) => [verdict(of(gateway), Infinity, unit), verdict(of(gateway), limit, unit)])
    ]
  }
  const firstToken = (measured: Measured) => of(measured, "alone", (window) => window.firstToken)
  const cells = [
    ...loadNames.map((load) =>
      ratios(
        `CPU per plan, ${describe(load)}`,
        " ms",
        (measured) => cpu(measured, load),
        ({ name }) => (hasLimit(load) ? cpuLimits[name] : Infinity)
      )
    ),
    ratios("CPU per chunk, 32 at once", " µs", (measured) => perChunk(measured) * 1_000),
    ratios(
      "CPU per plan besides its chunks, 32 at once",
      " ms",
      (measured) => cpu(measured, "few") - loads.few.chunks * perChunk(measured)
    ),
    [
      `time to first token, ${describe("alone")}`,
      `${show(firstToken(floor))} ms`,
      ...gateways.flatMap((gateway) => [
        `${show(firstToken(gateway))} ms`,
        verdict(firstToken(gateway) - firstToken(floor), firstTokenLimits[gateway.name], " ms")
      ])
    ],
    ratios(`plans, ${describe("usual")}`, "/s", (measured) => of(measured, "usual", (window) => window.plansPerSecond)),
    ...(["once", "stream", "poll"] as const).map((kind) => {
      const how = { once: "answers at once", stream: "streams", poll: "is polled" }[kind]
      const [unit, scale] = kind === "poll" ? [" %", 100] : [" ms", 1]
      return alone(`added to a peer that ${how}`, ({ peers }) =>
        verdict(peers && peers[kind] * scale, peerLimits[kind], unit)
      )
    }),
    alone("CPU per plan of a session that has grown", ({ growth }) => verdict(growth, growthLimit, " × a young one")),
    alone("time per plan in a store that has grown", ({ storeGrowth }) =>
      verdict(storeGrowth?.plan, growthLimit, " × a young one")
    ),
    ...grownOf(gateways).map((name) =>
      alone(`${name} in a store that has grown`, ({ storeGrowth }) =>
        verdict(storeGrowth?.operations[name], growthLimit, " × a young one")
      )
    ),
    stream("memory per open stream", " KiB", memoryLimit, ({ memory }) => memory),
    stream(
      "provider's socket closed, p99, callers leave at once",
      " ms",
      closedLimit,
      ({ closedAtOnce }) => closedAtOnce
    ),
    stream("provider's socket closed, p99, they leave in turn", " ms", closedLimit, ({ closedInTurn }) => closedInTurn)
  ]
  const header = ["", ...all.flatMap(({ label, name }) => (name === "floor" ? [label] : [label, "to the floor"]))]
  return align([header, ...cells.filter(([, ...values]) => values.some((value) => value !== ""))])
}

/** Rows of cells as columns of equal width. */
export const align = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join("   ")
        .trimEnd()
    )
    .join("\n")
}
