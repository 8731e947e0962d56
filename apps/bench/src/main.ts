import { parseArgs } from "node:util"
import { growth } from "./load/SessionGrowth.ts"
import { kept } from "./load/Kept.ts"
import { paced } from "./load/Paced.ts"
import { peerLatency } from "./load/PeerLatency.ts"
import { replays } from "./load/Replays.ts"
import { storeGrowth } from "./load/StoreGrowth.ts"
import { uploads } from "./load/Uploads.ts"
import { openStreams } from "./load/OpenStreams.ts"
import { startTimes } from "./load/StartTimes.ts"
import { runWindow, warmUp } from "./load/LoadWindow.ts"
import { parked } from "./parked/Parked.ts"
import { type Child, start, startGateway } from "./process/Child.ts"
import { cores } from "./process/Cores.ts"
import { findPostgres, type Postgres } from "./process/PostgresServer.ts"
import { loadNames, loads, type Measured, startLine, table } from "./report/ReportTable.ts"
import { quick } from "./server/Traffic.ts"
import { soak } from "./soak/Soak.ts"

const usage = `pnpm bench [options]

  --store memory|postgres   only this store (both)
  --windows N               windows of each load, of which the median counts (5)
  --plans N                 plans of a window (3000); with fewer it is quick, and less true
  --cpu-only                only CPU, time to first token and plans a second
  --against FOLDER          also the gateway of this other checkout, in turns with this one's
  --streams N               open streams while their memory and their end is measured (1000)
  --messages N              messages of the session that grows (10000)
  --soak TIME               instead of all this, loads a gateway on Postgres for so long, such as 30m, with plans that go wrong in every
                            way, and says whether anything grows
  --kept N                  instead of all this, asks for so many plans at a model's pace on Postgres, such as 1000, and says what is kept of each,
                            and whether a replay gives the bytes that were streamed
  --paced N                 instead of all this, measures what a token costs at a model's pace, 50 a second on 20, 100 and 300 streams, N times in turns
  --replay N                instead of all this, replays so many plans of 300 tokens and 3 calls, such as 30, and says how many of them a core replays in a
                            minute
  --rate N                  plans a second of the soak (80 % of what is measured first), or parked plans that are answered a second (100)
  --uploads N               instead of all this, sends so many files of 32 MiB at once, such as 50, beside 100 streams on Postgres, and says what
                            memory they take, and how much later the streams are; with --store embedded on the embedded database
  --parked                  instead of all this, says what plans cost that wait, and how fast they are woken, on Postgres
  --parked-plans N          how many of them there are (1000000)
  --events N                events of the Postgres store that has grown, 20 of each plan, such as 200000000 for 10,000,000 plans (0: left out)
`

const { values } = parseArgs({
  options: {
    store: { type: "string" },
    windows: { type: "string", default: "5" },
    plans: { type: "string", default: "3000" },
    "cpu-only": { type: "boolean", default: false },
    against: { type: "string" },
    streams: { type: "string", default: "1000" },
    messages: { type: "string", default: "10000" },
    events: { type: "string", default: "0" },
    soak: { type: "string" },
    kept: { type: "string" },
    paced: { type: "string" },
    replay: { type: "string" },
    rate: { type: "string" },
    uploads: { type: "string" },
    parked: { type: "boolean", default: false },
    "parked-plans": { type: "string", default: "1000000" },
    help: { type: "boolean", default: false }
  }
})
if (values.help) {
  process.stdout.write(usage)
  process.exit()
}
type Count = "windows" | "plans" | "streams" | "messages" | "events" | "parked-plans"
const count = (name: Count, least = 1): number => {
  const number = Number(values[name])
  if (!Number.isInteger(number) || number < least) throw new Error(`--${name}: expected an integer from ${least} on`)
  return number
}
const [windows, plans, streams, messages] = [count("windows"), count("plans"), count("streams"), count("messages")]
const events = count("events", 0)
const stores = values.uploads === undefined ? ["memory", "postgres"] : ["postgres", "embedded"]
if (values.store !== undefined && !stores.includes(values.store)) {
  throw new Error(`--store: expected ${stores.join(" or ")}`)
}
const wants = (store: string): boolean => (values.store ?? store) === store

const environmentOf = ({ url }: Child) => ({
  OPENAI_BASE_URL: `${url}/v1`,
  OPENAI_API_KEY: "bench",
  BOWLINE_MODEL: quick(32),
  BOWLINE_ALLOWED_MODELS: "openai/*",
  BOWLINE_MAX_PLANS: "10000",
  BOWLINE_RATE_LIMIT: "1000000/1s"
})

const say = (line: string) => void process.stderr.write(`${line}\n`)

const rate = values.rate === undefined ? undefined : Number(values.rate)
if (rate !== undefined && !(rate > 0)) throw new Error("--rate: expected plans a second")

if (values.soak !== undefined) {
  const [, time, unit] = /^(\d+)(s|m|h)$/.exec(values.soak) ?? []
  const ms = Number(time) * (unit === "h" ? 3_600_000 : unit === "m" ? 60_000 : 1_000)
  if (!(ms >= 240_000)) throw new Error("--soak: expected a time of at least 4m, such as 30m or 2h")
  const database = await findPostgres()
  const { isFine, text } = await soak(database, ms, rate, say)
  await database[Symbol.asyncDispose]()
  console.log(text)
  process.exit(isFine ? 0 : 1)
}

if (values.kept !== undefined) {
  const plans = Number(values.kept)
  if (!Number.isInteger(plans) || plans < 1) throw new Error("--kept: expected an integer from 1 on")
  const database = await findPostgres()
  const provider = await start(new URL("./server/ProviderServer.ts", import.meta.url))
  const { isFine, text } = await kept(database, plans, environmentOf(provider), say)
  await provider[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
  console.log(text)
  process.exit(isFine ? 0 : 1)
}

if (values.paced !== undefined) {
  const rounds = Number(values.paced)
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error("--paced: expected an integer from 1 on")
  const provider = await start(new URL("./server/ProviderServer.ts", import.meta.url))
  const text = await paced(rounds, provider, environmentOf(provider), say)
  await provider[Symbol.asyncDispose]()
  console.log(text)
  process.exit()
}

if (values.replay !== undefined) {
  const plans = Number(values.replay)
  if (!Number.isInteger(plans) || plans < 1) throw new Error("--replay: expected an integer from 1 on")
  const provider = await start(new URL("./server/ProviderServer.ts", import.meta.url))
  const peer = await start(new URL("./server/PeerServer.ts", import.meta.url))
  const { isFine, text } = await replays(plans, peer, environmentOf(provider))
  await peer[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
  console.log(text)
  process.exit(isFine ? 0 : 1)
}

if (values.uploads !== undefined) {
  const files = Number(values.uploads)
  if (!Number.isInteger(files) || files < 1) throw new Error("--uploads: expected an integer from 1 on")
  const provider = await start(new URL("./server/ProviderServer.ts", import.meta.url))
  const { isFine, text } = await uploads(files, environmentOf(provider), values.store === "embedded", say)
  await provider[Symbol.asyncDispose]()
  console.log(text)
  process.exit(isFine ? 0 : 1)
}

if (values.parked) {
  console.log(await parked(count("parked-plans", 10_000), rate ?? 100, say))
  process.exit()
}

await using running = new AsyncDisposableStack()
type Environment = { readonly [variable: string]: string }

/** `again` starts one more gateway like this one, with some variables more. */
interface Target {
  readonly child: Child
  readonly measured: Measured
  readonly again?: (more: Environment) => Promise<Child>
}
const targets: Array<Target> = []
const add = (name: Measured["name"], child: Child, label: string = name, again?: Target["again"]) =>
  targets.push({
    child: running.use(child),
    ...(again !== undefined && { again }),
    measured: {
      name,
      label,
      windows: { few: [], usual: [], many: [], alone: [] },
      streams: undefined,
      peers: undefined,
      growth: undefined,
      storeGrowth: undefined
    }
  })

const provider = running.use(await start(new URL("./server/ProviderServer.ts", import.meta.url)))
const peer = running.use(await start(new URL("./server/PeerServer.ts", import.meta.url)))
add("floor", await start(new URL("./server/FloorServer.ts", import.meta.url), [provider.url], cores.measured))

const environment = environmentOf(provider)
const addGateways = async (name: "memory" | "postgres", store: Environment) => {
  const start = (checkout: string | undefined) => (more: Environment) =>
    startGateway({ ...environment, ...store, ...more }, checkout)
  const own = start(undefined)
  add(name, await own({}), name, own)
  if (values.against === undefined) return
  const other = start(values.against)
  add(name, await other({}), `${name}, other checkout`, other)
}

let postgresNote = "left out"
let postgres: Postgres | undefined
if (wants("memory")) await addGateways("memory", { BOWLINE_DATA_DIR: "memory:" })
if (wants("postgres")) {
  postgres = await findPostgres().catch((error: unknown) => say(`No Postgres, it is left out: ${String(error)}`))
  if (postgres !== undefined) {
    running.use(postgres)
    postgresNote = postgres.note
    await addGateways("postgres", { DATABASE_URL: postgres.url })
  }
}

for (const { child, measured } of targets) {
  say(`Warming up: ${measured.label}`)
  const isWarm = await warmUp(child, plans, loads.usual)
  if (!isWarm) say(`Two windows never agreed within 5 %: ${measured.label}. The machine is not quiet`)
}
for (let window = 0; window < windows; window++) {
  say(`Window ${window + 1} of ${windows}`)
  // In turns, and every other time the other way round: what slows the machine down slows all of them down.
  for (const name of loadNames) {
    for (const { child, measured } of window % 2 === 0 ? targets : targets.toReversed()) {
      const load = loads[name]
      measured.windows[name].push(await runWindow(child, load.concurrency === 1 ? Math.ceil(plans / 4) : plans, load))
    }
  }
}
for (const { again, child, measured } of values["cpu-only"] ? [] : targets) {
  say(`${streams} open streams: ${measured.label}`)
  measured.streams = await openStreams(child, provider, streams)
  if (again === undefined) continue
  say(`Calls of a peer: ${measured.label}`)
  measured.peers = await peerLatency(child, peer.url)
  say(`A session of ${messages} messages: ${measured.label}`)
  // Its model reads so little that the session is compacted every few plans.
  await using small = await again({ BOWLINE_CONTEXT_WINDOW: "2000" })
  measured.growth = await growth(small, messages)
}
const stored = targets.find(({ measured }) => measured.name === "postgres")
if (stored !== undefined && postgres !== undefined && events > 0) {
  say(`A store of ${events} events`)
  stored.measured.storeGrowth = await storeGrowth(postgres, events, environment)
}

let starts = ""
if (!values["cpu-only"]) {
  say("Starts on an embedded database")
  starts = `\n\n${startLine(await startTimes(environment))}`
}

const [floor, ...gateways] = targets.map(({ measured }) => measured)
if (floor !== undefined) {
  console.log(`
Medians of ${windows} windows of ${plans} plans, a quarter of them where one runs at once; Node.js ${process.version}.
Cores: ${cores.note}.
Postgres: ${postgresNote}. CPU is that of the process itself, not of its database.

${table(floor, gateways)}${starts}`)
}
