import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import { readFrames } from "../load/Frames.ts"
import { runWindow, times } from "../load/LoadWindow.ts"
import { type Child, start, startGateway } from "../process/Child.ts"
import { cores } from "../process/Cores.ts"
import { findPostgres, keepFilledStore } from "../process/PostgresServer.ts"
import { align, verdict } from "../report/ReportTable.ts"
import { models, type PlanRequest } from "../server/Traffic.ts"
import { countStatements, type Original, openStore } from "./ParkedStore.ts"
import { type Delays, steer, wake } from "./Saying.ts"

const limits = { resident: 50, statements: 2, woken: 500, steered: 150, steeredElsewhere: 500 }
const replicas = 2
const idleMs = 60_000
const warmUpSeconds = 10
const seconds = 30
/** Of which the first ones are not counted. */
const texts = 350

const environment = {
  OPENAI_API_KEY: "bench",
  BOWLINE_MODEL: models.asking,
  BOWLINE_ALLOWED_MODELS: "openai/*",
  BOWLINE_MAX_PLANS: "10000",
  BOWLINE_RATE_LIMIT: "1000000/1s",
  BOWLINE_PARK_AFTER: "200ms"
}

/** A plan that calls a tool of its client, once it is parked. */
const park = async (gateway: Child): Promise<Original> => {
  const body: PlanRequest = {
    question: "What is the state of the order?",
    tools: [{ name: "order", input_schema: { type: "object" } }],
    preferences: { model: models.asking, on_disconnect: "continue", wait_timeout_ms: 30 * 86_400_000 }
  }
  const agent = new Agent()
  const reader = readFrames(`${gateway.url}/plan`, agent, body)
  const { data } = await reader.first("waiting")
  await reader.first("parked")
  agent.destroy()
  return { plan_id: String(data["plan_id"]), task_id: String(data["task_id"]) }
}

/** Replicas on one database. */
interface Deployment {
  readonly url: string
  readonly gateways: ReadonlyArray<Child>
}

const mean = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0) / values.length

/** What a replica has once its garbage is collected, in MiB: the mean of all. */
const memoryOf = async ({ gateways }: Deployment) => {
  const samples = await Promise.all(gateways.map(({ census }) => census()))
  const of = (name: "resident" | "heap") => mean(samples.map((sample) => sample[name])) / 1_024
  return { resident: of("resident"), heap: of("heap") }
}

const cpuOf = async ({ gateways }: Deployment): Promise<number> => {
  const used = await Promise.all(gateways.map(({ usage }) => usage()))
  return used.reduce((sum, { cpu }) => sum + cpu, 0)
}

type Counter = Awaited<ReturnType<typeof countStatements>>

/** How many statements two deployments need, and what their replicas have resident, while nobody does anything. */
const idle = async (counter: Counter, [without, beside]: readonly [Deployment, Deployment]) => {
  await counter.reset()
  await setTimeout(idleMs)
  const countOf = async ({ url }: Deployment) => {
    const counts = await counter.counts(url)
    const perSecond = (calls: number) => calls / (idleMs / 1_000)
    return counts && { all: perSecond(counts.reduce((sum, { calls }) => sum + calls, 0)), counts }
  }
  const statements = [await countOf(without), await countOf(beside)] as const
  return { statements, memory: [await memoryOf(without), await memoryOf(beside)] as const }
}

/** What plans that wait cost, and how fast they are woken, beside so many of them on Postgres. */
export const parked = async (plans: number, rate: number, say: (line: string) => void): Promise<string> => {
  await using running = new AsyncDisposableStack()
  const postgres = running.use(await findPostgres(["shared_preload_libraries=pg_stat_statements", "autovacuum=off"]))
  const counter = running.use(await countStatements(postgres.url))
  const provider = running.use(await start(new URL("../server/ProviderServer.ts", import.meta.url)))
  const startOne = (url: string) =>
    startGateway({ ...environment, OPENAI_BASE_URL: `${provider.url}/v1`, DATABASE_URL: url }, undefined, cores.all)
  const deploy = async (url: string): Promise<Deployment> => {
    const gateways = await times(replicas, 1, () => startOne(url))
    for (const gateway of gateways) running.use(gateway)
    return { url, gateways }
  }

  const empty = running.use(await keepFilledStore(postgres, 0))
  const full = running.use(await keepFilledStore(postgres, 0))
  const store = running.use(await openStore(full.url))
  const original = await (async () => {
    await using gateway = await startOne(full.url)
    const parked = await park(gateway)
    await store.sealed()
    return parked
  })()
  const emptyBytes = await store.size()
  await store.copy(original, plans, (made) => say(`${made} parked plans`))
  const bytes = await store.size()

  const [without, beside] = [await deploy(empty.url), await deploy(full.url)]
  say("Warming up")
  for (const gateway of [...without.gateways, ...beside.gateways])
    await runWindow(gateway, 500, { chunks: 2, concurrency: 8 })
  say(`Nobody does anything for ${idleMs / 1_000} s`)
  const { memory, statements } = await idle(counter, [without, beside])
  const perSecond = [rate / 4, rate / 2, rate] as const
  const answered = Array.from(await store.some(original, (warmUpSeconds + perSecond.length * seconds) * rate))
  await wake(beside.gateways, answered.splice(0, warmUpSeconds * perSecond[0]), perSecond[0])
  const woken: Array<readonly [rate: number, cpu: number, delays: Delays]> = []
  for (const rate of perSecond) {
    say(`${rate} answers a second for ${seconds} s`)
    const began = await cpuOf(beside)
    const delays = await wake(beside.gateways, answered.splice(0, seconds * rate), rate)
    woken.push([rate, ((await cpuOf(beside)) - began) / delays.count, delays])
  }
  say("Texts that count now")
  const [here, there] = beside.gateways
  if (here === undefined || there === undefined) throw new Error("There is no gateway")
  const steered = {
    here: await steer(here, here, provider, texts),
    elsewhere: await steer(here, there, provider, texts)
  }

  const [before, after] = memory
  const [few, many] = statements
  const delays = ({ count, median, p99 }: Delays, limit: number) => [
    `${median.toFixed(0)} ms`,
    verdict(p99, limit, " ms"),
    String(count)
  ]
  const counted = (count: number | undefined) => (count === undefined ? "not counted" : count.toFixed(2))
  return `${align([
    ["idle, a replica", "none parked", `${plans} parked`, "more"],
    [
      "resident, collected",
      `${before.resident.toFixed(0)} MiB`,
      `${after.resident.toFixed(0)} MiB`,
      verdict(after.resident - before.resident, limits.resident, " MiB")
    ],
    [
      "heap, collected",
      `${before.heap.toFixed(1)} MiB`,
      `${after.heap.toFixed(1)} MiB`,
      `${(after.heap - before.heap).toFixed(1)} MiB`
    ],
    [
      `statements a second of ${replicas} replicas`,
      counted(few?.all),
      counted(many?.all),
      many && few ? verdict(many.all - few.all, limits.statements, "") : ""
    ]
  ])}

${align([
  ["from sent to", "median", "p99", "of"],
  ...woken.map(([rate, cpu, woken]) => [
    `woken was read, ${rate} a second (${cpu.toFixed(1)} ms of CPU each)`,
    ...delays(woken, limits.woken)
  ]),
  ["the next request of a plan here", ...delays(steered.here, limits.steered)],
  ["the next request of a plan of another replica", ...delays(steered.elsewhere, limits.steeredElsewhere)]
])}

The CPU is that of ${replicas} gateways, for a plan that is answered and read to its end. The store has ${(bytes / 2 ** 30).toFixed(1)} GiB, ${((bytes - emptyBytes) / plans / 1_024).toFixed(1)} KiB a plan. Its statements while nobody did anything, by how often they ran:
${(many?.counts ?? [])
  .slice(0, 12)
  .map(
    ({ calls, ms, query }) =>
      `${String(calls).padStart(5)} × ${(ms / calls).toFixed(2)} ms  ${query.replaceAll(/\s+/g, " ").slice(0, 90)}`
  )
  .join("\n")}`
}
