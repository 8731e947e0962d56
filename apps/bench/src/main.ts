import { cpus } from "node:os"
import { parseArgs } from "node:util"
import { growth } from "./load/Growth.ts"
import { peerLatency } from "./load/PeerLatency.ts"
import { memoryPerStream, runRound } from "./load/Round.ts"
import { storeGrowth } from "./load/StoreGrowth.ts"
import { type Child, start, startGateway } from "./process/Child.ts"
import { findPostgres, type Postgres } from "./process/Postgres.ts"
import { levels, type Measured, table } from "./report/Table.ts"
import { chunks, models } from "./server/Traffic.ts"

const usage = `pnpm bench [options]

  --store memory|postgres   only this store (both)
  --rounds N                rounds of each load, of which the median counts (7)
  --plans N                 plans of a round (512)
  --streams N               open streams while memory is measured (1000)
  --messages N              messages of the session that grows (10000)
  --events N                events of the Postgres store that has grown, such as 1000000 (0: left out)
`

const { values } = parseArgs({
  options: {
    store: { type: "string" },
    rounds: { type: "string", default: "7" },
    plans: { type: "string", default: "512" },
    streams: { type: "string", default: "1000" },
    messages: { type: "string", default: "10000" },
    events: { type: "string", default: "0" },
    help: { type: "boolean", default: false }
  }
})
if (values.help) {
  process.stdout.write(usage)
  process.exit()
}
const count = (name: "rounds" | "plans" | "streams" | "messages" | "events", least = 1): number => {
  const number = Number(values[name])
  if (!Number.isInteger(number) || number < least) throw new Error(`--${name}: expected an integer from ${least} on`)
  return number
}
const [rounds, plans, streams, messages] = [count("rounds"), count("plans"), count("streams"), count("messages")]
const events = count("events", 0)
if (values.store !== undefined && !["memory", "postgres"].includes(values.store)) {
  throw new Error("--store: expected memory or postgres")
}
const wants = (store: string): boolean => (values.store ?? store) === store

const say = (line: string) => void process.stderr.write(`${line}\n`)

await using running = new AsyncDisposableStack()
const targets: Array<{ readonly child: Child; readonly measured: Measured }> = []
const add = (name: Measured["name"], child: Child) =>
  targets.push({
    child: running.use(child),
    measured: {
      name,
      rounds: { 1: [], 32: [], 256: [] },
      memory: NaN,
      peers: undefined,
      growth: NaN,
      storeGrowth: undefined
    }
  })

const provider = running.use(await start(new URL("./server/ProviderServer.ts", import.meta.url)))
const peer = running.use(await start(new URL("./server/PeerServer.ts", import.meta.url)))
add("floor", await start(new URL("./server/FloorServer.ts", import.meta.url), [provider.url]))

const environment = {
  OPENAI_BASE_URL: `${provider.url}/v1`,
  OPENAI_API_KEY: "bench",
  BOWLINE_MODEL: models.quick,
  BOWLINE_ALLOWED_MODELS: "openai/*",
  BOWLINE_MAX_PLANS: "10000",
  BOWLINE_RATE_LIMIT: "1000000/1s",
  // So small that the session which grows is compacted every few plans.
  BOWLINE_CONTEXT_WINDOW: "2000"
}
let postgresNote = "left out"
let postgres: Postgres | undefined
if (wants("memory")) add("memory", await startGateway({ ...environment, BOWLINE_DATA_DIR: "memory:" }))
if (wants("postgres")) {
  postgres = await findPostgres().catch((error: unknown) => say(`No Postgres, it is left out: ${String(error)}`))
  if (postgres !== undefined) {
    running.use(postgres)
    postgresNote = postgres.note
    add("postgres", await startGateway({ ...environment, DATABASE_URL: postgres.url }))
  }
}

say("Warming up")
for (const { child } of targets) await runRound(child, plans, 32)
for (const { child, measured } of targets) {
  say(`Memory of ${streams} open streams: ${measured.name}`)
  measured.memory = await memoryPerStream(child, streams)
}
for (const { child, measured } of targets.slice(1)) {
  say(`Calls of a peer: ${measured.name}`)
  measured.peers = await peerLatency(child, peer.url)
  say(`A session of ${messages} messages: ${measured.name}`)
  measured.growth = await growth(child, messages)
  if (measured.name === "postgres" && postgres !== undefined && events > 0) {
    say(`A store of ${events} events: ${measured.name}`)
    measured.storeGrowth = await storeGrowth(postgres, events, environment)
  }
}
for (let round = 0; round < rounds; round++) {
  say(`Round ${round + 1} of ${rounds}`)
  // In turns, and every other round the other way round: what slows the machine down slows all of them down.
  for (const level of levels) {
    for (const { child, measured } of round % 2 === 0 ? targets : targets.toReversed()) {
      measured.rounds[level].push(await runRound(child, level === 1 ? Math.ceil(plans / 4) : plans, level))
    }
  }
}

const [floor, ...gateways] = targets.map(({ measured }) => measured)
if (floor !== undefined) {
  console.log(`
${chunks} chunks a plan, medians of ${rounds} rounds of ${plans} plans; Node.js ${process.version}, ${cpus().length} CPUs.
Postgres: ${postgresNote}. CPU is that of the process itself, not of its database.

${table(floor, gateways)}`)
}
