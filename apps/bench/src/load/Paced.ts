import { Effect } from "effect"
import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import { type Child, start, startGateway } from "../process/Child.ts"
import { cores } from "../process/Cores.ts"
import { connect, findPostgres, keepFilledStore } from "../process/PostgresServer.ts"
import { align, verdict } from "../report/ReportTable.ts"
import { now } from "../server/Traffic.ts"
import { watch } from "./Caller.ts"
import { median, percentile99 } from "./LoadWindow.ts"

/** How many streams there are at once. */
const loads = [20, 100, 300] as const
type Streams = (typeof loads)[number]

/** Words of each answer, 50 a second, and the part of the time in which is measured: all streams run then. */
const words = 500
const from = 3_000
const until = 8_000

/** At most: CPU of a token to the floor's, rows and bytes of WAL of a token, and its lag at p99 in ms beyond the floor's. */
const limits = {
  floor: { 20: Infinity, 100: Infinity, 300: Infinity },
  effect: { 20: Infinity, 100: Infinity, 300: Infinity },
  memory: { 20: 2, 100: 1.6, 300: 1.4 },
  postgres: { 20: 3, 100: 1.8, 300: 1.4 },
  lag: { memory: 8, postgres: 8 + 25 },
  rows: { 20: 1, 100: 0.5, 300: 0.25 },
  wal: { 20: Infinity, 100: 250, 300: Infinity }
} as const

/** How many streams a core holds at least, and the lag that they may have at p99, in ms. */
const held = { memory: 400, postgres: 350 } as const
const heldLag = 250

/** What a token took: CPU in µs, the time from the provider's write to the caller's read in ms, and what the database wrote for it. */
interface Cost {
  readonly cpu: number
  readonly lag: number
  readonly lag99: number
  readonly rows: number
  readonly wal: number
}

interface Target {
  readonly name: "floor" | "effect" | "memory" | "postgres"
  readonly child: Child
  /** What the database has written so far. */
  readonly written: () => Promise<{ readonly rows: number; readonly wal: number }>
  readonly costs: { readonly [streams in Streams]: Array<Cost> }
}

const nothing = async () => ({ rows: 0, wal: 0 })

const measure = async ({ child, written }: Target, streams: number): Promise<Cost> => {
  const agent = new Agent({ keepAlive: true, maxSockets: streams })
  let isMeasured = false
  const lags: Array<number> = []
  const told = (at: number) => {
    if (isMeasured) lags.push(now() - at)
  }
  const began = performance.now()
  const all = Array.from({ length: streams }, async () => {
    // Callers do not come at one instant.
    await setTimeout(Math.random() * 2_000)
    await watch(child.url, agent, words, told)
  })
  await setTimeout(from)
  const before = { ...(await child.usage()), ...(await written()) }
  isMeasured = true
  await setTimeout(until - (performance.now() - began))
  isMeasured = false
  const after = { ...(await child.usage()), ...(await written()) }
  await Promise.all(all)
  agent.destroy()
  // The next ones begin when these are sealed.
  await setTimeout(3_000)
  const each = (what: "cpu" | "rows" | "wal") => (after[what] - before[what]) / lags.length
  return {
    cpu: each("cpu") * 1_000,
    lag: median(lags),
    lag99: percentile99(lags),
    rows: each("rows"),
    wal: each("wal")
  }
}

const show = (value: number): string => value.toFixed(value < 10 ? 2 : 0)

/** Tokens on Postgres may wait for a flush of the disk besides, which takes so many ms. */
const table = (targets: ReadonlyArray<Target>, flush: number): string => {
  const [floor, ...gateways] = targets
  if (floor === undefined) return ""
  const of = ({ costs }: Target, streams: Streams, what: keyof Cost) => median(costs[streams].map((cost) => cost[what]))
  const bounded = (value: number, limit: number, unit: string) =>
    `${show(value)}${unit}${limit === Infinity ? "" : value <= limit ? ` ≤ ${limit}` : ` > ${limit}`}`
  const lagLimit = ({ name }: Target, streams: Streams, what: keyof Cost) => {
    if (streams !== 100 || what !== "lag99") return Infinity
    return name === "memory"
      ? limits.lag.memory
      : name === "postgres"
        ? limits.lag.postgres + Math.ceil(flush)
        : Infinity
  }
  const rows = loads.flatMap((streams) => [
    [
      `${streams} streams: CPU of a token`,
      `${show(of(floor, streams, "cpu"))} µs`,
      ...gateways.flatMap((gateway) => [
        `${show(of(gateway, streams, "cpu"))} µs`,
        bounded(of(gateway, streams, "cpu") / of(floor, streams, "cpu"), limits[gateway.name][streams], " ×")
      ])
    ],
    ...(["lag", "lag99"] as const).map((what) => [
      `  lag, ${what === "lag" ? "median" : "p99"}`,
      `${show(of(floor, streams, what))} ms`,
      ...gateways.flatMap((gateway) => [
        `${show(of(gateway, streams, what))} ms`,
        `+ ${bounded(of(gateway, streams, what) - of(floor, streams, what), lagLimit(gateway, streams, what), " ms")}`
      ])
    ]),
    ...(["rows", "wal"] as const).map((what) => [
      what === "rows" ? "  rows of a token" : "  WAL of a token",
      "",
      ...gateways.flatMap((gateway) => [
        "",
        gateway.name === "postgres"
          ? bounded(of(gateway, streams, what), limits[what][streams], what === "rows" ? "" : " B")
          : ""
      ])
    ])
  ])
  return align([["", "floor", ...gateways.flatMap(({ name }) => [name, "to the floor"])], ...rows])
}

/**
 * What a token costs at a model's pace, 50 a second on each stream: of the floor, of the same on Effect and of a gateway on each store, in turns, so
 * many times.
 */
export const paced = async (
  rounds: number,
  provider: Child,
  environment: { readonly [name: string]: string },
  say: (line: string) => void
): Promise<string> => {
  await using running = new AsyncDisposableStack()
  const postgres = running.use(await findPostgres(["fsync=on"]))
  const store = running.use(await keepFilledStore(postgres, 0))
  const { sql } = running.use(await connect(store.url, "paced"))
  const written = async () => {
    const [row] = await Effect.runPromise(
      sql<{ readonly rows: number; readonly wal: number }>`
select (select count(*) from events)::int as rows, (pg_current_wal_insert_lsn() - '0/0')::float8 as wal`
    )
    return row ?? nothing()
  }
  const floor = await start(new URL("../server/FloorServer.ts", import.meta.url), [provider.url], cores.measured)
  const effect = await start(new URL("../server/EffectServer.ts", import.meta.url), [provider.url], cores.measured)
  const flushes: Array<number> = []
  for (let count = 0; count < 50; count++) {
    const began = performance.now()
    await Effect.runPromise(sql`select pg_logical_emit_message(true, 'bench', '')::text`)
    flushes.push(performance.now() - began)
  }
  const flush = median(flushes)
  const target = (name: Target["name"], child: Child, reads: Target["written"] = nothing): Target => ({
    name,
    child: running.use(child),
    written: reads,
    costs: { 20: [], 100: [], 300: [] }
  })
  const targets = [
    target("floor", floor),
    target("effect", effect),
    target("memory", await startGateway({ ...environment, BOWLINE_DATA_DIR: "memory:" })),
    target("postgres", await startGateway({ ...environment, DATABASE_URL: store.url }), written)
  ]
  // The first one warms the processes up.
  for (const one of targets) await measure(one, 100)
  for (let round = 0; round < rounds; round++) {
    for (const streams of loads) {
      for (const one of round % 2 === 0 ? targets : targets.toReversed()) {
        const cost = await measure(one, streams)
        one.costs[streams].push(cost)
        say(`${streams} streams, ${one.name}: ${show(cost.cpu)} µs a token, p99 ${show(cost.lag99)} ms`)
      }
    }
  }
  const holds: Array<string> = []
  for (const one of targets) {
    if (one.name !== "memory" && one.name !== "postgres") continue
    const { lag99 } = await measure(one, held[one.name])
    holds.push(`${held[one.name]} streams, ${one.name}: p99 ${verdict(lag99, heldLag, " ms")}`)
  }
  return `
Medians of ${rounds} rounds, 50 tokens a second on each stream; Node.js ${process.version}.
Cores: ${cores.note}.
Postgres: ${postgres.note}; it commits the least that there is in ${show(flush)} ms. CPU is that of the process itself, not of its database. Lag: the provider wrote, the caller read.
effect: what the floor does, on the HTTP server, the client and the streams of Effect.

${table(targets, flush)}

${holds.join("\n")}`
}
