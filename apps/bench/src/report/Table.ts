import type { PeerLatency } from "../load/PeerLatency.ts"
import { median, type Round } from "../load/Round.ts"

export const levels = [1, 32, 256] as const
export type Level = (typeof levels)[number]

/** What was measured of the floor, or of the gateway with a store. */
export interface Measured {
  readonly name: "floor" | "memory" | "postgres"
  readonly rounds: { readonly [level in Level]: Array<Round> }
  memory: number
  peers: PeerLatency | undefined
  /** What a plan of a session that has grown costs, to one of a young session. */
  growth: number
  /** What a plan takes in a store that has grown, to one in an empty store, if that was asked for. */
  storeGrowth: number | undefined
}

const cpuLimits = { floor: undefined, memory: 4, postgres: 8 }
const firstTokenLimits = { floor: undefined, memory: 1.5, postgres: 4 }
const memoryLimit = 200
const growthLimit = 1.2
const peerLimits = { once: 10, stream: 10, poll: 20 }

const of = ({ rounds }: Measured, level: Level, value: (round: Round) => number): number =>
  median(rounds[level].map(value))

const verdict = (value: number, limit: number, unit: string): string =>
  `${value.toFixed(value < 10 ? 2 : 0)}${unit} ${value <= limit ? "≤" : ">"} ${limit}${unit}`

/** Rows of what was measured, with the ratio to the floor and the target where there is one. */
export const table = (floor: Measured, gateways: ReadonlyArray<Measured>): string => {
  const header = ["", "floor", ...gateways.flatMap(({ name }) => [`gateway, ${name}`, "to the floor"])]
  const rows = [
    ...levels.map((level) => {
      const cpu = (measured: Measured) => of(measured, level, (round) => round.cpuPerPlan)
      const cells = gateways.flatMap((gateway) => [
        `${cpu(gateway).toFixed(2)} ms`,
        verdict(cpu(gateway) / cpu(floor), cpuLimits[gateway.name] ?? 0, " ×")
      ])
      return [`CPU per plan, ${level} at once`, `${cpu(floor).toFixed(2)} ms`, ...cells]
    }),
    ((firstToken: (measured: Measured) => number) => [
      "time to first token, 1 at once",
      `${firstToken(floor).toFixed(2)} ms`,
      ...gateways.flatMap((gateway) => [
        `${firstToken(gateway).toFixed(2)} ms`,
        verdict(firstToken(gateway) - firstToken(floor), firstTokenLimits[gateway.name] ?? 0, " ms")
      ])
    ])((measured) => of(measured, 1, (round) => round.firstToken)),
    ...levels.map((level) => {
      const speed = (measured: Measured) => of(measured, level, (round) => round.plansPerSecond)
      const cells = gateways.flatMap((gateway) => [
        `${speed(gateway).toFixed(0)}/s`,
        `${(speed(gateway) / speed(floor)).toFixed(2)} ×`
      ])
      return [`plans, ${level} at once`, `${speed(floor).toFixed(0)}/s`, ...cells]
    }),
    ...(["once", "stream", "poll"] as const).map((kind) => [
      `added to a peer that ${{ once: "answers at once", stream: "streams", poll: "is polled" }[kind]}`,
      "",
      ...gateways.flatMap(({ peers }) => {
        const unit = kind === "poll" ? " %" : " ms"
        const value = (peers?.[kind] ?? Number.NaN) * (kind === "poll" ? 100 : 1)
        return ["", verdict(value, peerLimits[kind], unit)]
      })
    ]),
    [
      "CPU per plan of a session that has grown",
      "",
      ...gateways.flatMap(({ growth }) => ["", verdict(growth, growthLimit, " × a young one")])
    ],
    [
      "time per plan in a store that has grown",
      "",
      ...gateways.flatMap(({ storeGrowth }) => [
        "",
        storeGrowth === undefined ? "" : verdict(storeGrowth, growthLimit, " × an empty one")
      ])
    ],
    [
      "memory per open stream",
      `${floor.memory.toFixed(0)} KiB`,
      ...gateways.flatMap(({ memory }) => [`${memory.toFixed(0)} KiB`, verdict(memory, memoryLimit, " KiB")])
    ]
  ]
  return align([header, ...rows])
}

const align = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
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
