import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import { type Child, start, startGateway } from "../process/Child.ts"
import type { Postgres } from "../process/PostgresServer.ts"
import { align } from "../report/ReportTable.ts"
import { models } from "../server/Traffic.ts"
import { askSomething, type Outcome } from "./SoakQuestions.ts"
import { judge, type Sample } from "./SoakVerdict.ts"
import { probe } from "./StoreProbe.ts"

/** The part of the capacity that the load takes. */
const share = 0.8
const capacityMs = 20_000
const capacityCallers = 96
const turnMs = 10_000
/** A sample stops the gateway while it walks through the heap, for seconds if many plans run: more of them would be a load of their own. */
const sampleMs = 60_000
/** How often the gateway's connections to its database are cut, on the average. */
const cutMs = 45_000
/** The longest that anything of a plan may stay behind its end: plans of callers that left wait for their grace. */
const settleMs = 90_000

const environment = {
  OPENAI_API_KEYS: Array.from({ length: 64 }, (_, index) => `key-${index}`).join(","),
  BOWLINE_MODEL: models.faulty,
  BOWLINE_ALLOWED_MODELS: "openai/*",
  BOWLINE_MAX_PLANS: "2000",
  BOWLINE_RATE_LIMIT: "1000000/1s",
  BOWLINE_FIRST_TOKEN_TIMEOUT: "2s",
  BOWLINE_IDLE_TIMEOUT: "8s",
  BOWLINE_RETRY_BASE: "100ms",
  LOG_LEVEL: "fatal"
}

type Where = Parameters<typeof askSomething>[0]

/** Plans of the mix in a second, when there are always so many callers. */
const capacityOf = async (where: Where): Promise<number> => {
  const until = performance.now() + capacityMs
  let plans = 0
  const caller = async () => {
    while (performance.now() < until) {
      const { length } = await askSomething(where)
      plans += length
    }
  }
  await Promise.all(Array.from({ length: capacityCallers }, caller))
  return (plans / capacityMs) * 1_000
}

/** Asks at a fixed rate, however long answers take, and counts what becomes of the plans. */
const load = (where: Where, rate: number, count: (outcomes: ReadonlyArray<Outcome>) => void) => {
  const open = new Set<Promise<void>>()
  let isOver = false
  const asking = (async () => {
    const began = performance.now()
    for (let asked = 0; !isOver; asked++) {
      const plan = askSomething(where).then(count)
      open.add(plan)
      void plan.finally(() => open.delete(plan))
      await setTimeout(Math.max(0, began + ((asked + 1) / rate) * 1_000 - performance.now()))
    }
  })()
  return async () => {
    isOver = true
    await asking
    await Promise.all(open)
  }
}

type Store = Awaited<ReturnType<typeof probe>>

const sampleOf = async (gateway: Child, store: Store, began: number): Promise<Sample> => {
  const [{ fibers, files, heap, resident }, stored] = await Promise.all([gateway.census(), store.look()])
  const seconds = (performance.now() - began) / 1_000
  return { seconds, resident: resident / 1_024, heap: heap / 1_024, fibers, files, ...stored }
}

/** The last sample: as soon as nothing of any plan is left, or when it should have been long ago. */
const settled = async (gateway: Child, store: Store, began: number): Promise<Sample> => {
  const until = performance.now() + settleMs
  while (performance.now() < until) {
    const { leases, running } = await store.look()
    if (leases === 0 && running === 0) break
    await setTimeout(500)
  }
  return sampleOf(gateway, store, began)
}

const show = ({ seconds, ...figures }: Sample): string =>
  `${seconds.toFixed(0).padStart(6)} s  ${Object.entries(figures)
    .map(([name, value]) => `${name} ${value.toFixed(0)}`)
    .join("  ")}`

/**
 * Loads a gateway on Postgres for so many milliseconds with plans that go wrong in every way. Says what it has seen, and gives whether nothing
 * grew, every plan had an end, and nothing was left. Without a `rate` in plans a second it takes a part of the capacity, which it measures first.
 */
export const soak = async (postgres: Postgres, ms: number, rate: number | undefined, say: (line: string) => void) => {
  await using running = new AsyncDisposableStack()
  const server = async (name: string) => running.use(await start(new URL(`../server/${name}.ts`, import.meta.url)))
  const [provider, peer, hanging] = [
    await server("ProviderServer"),
    await server("PeerServer"),
    await server("PeerServer")
  ]
  const gateway = running.use(
    await startGateway({ ...environment, OPENAI_BASE_URL: `${provider.url}/v1`, DATABASE_URL: postgres.url })
  )
  const store = running.use(await probe(postgres.url))
  const agent = new Agent({ keepAlive: true })
  running.defer(() => agent.destroy())
  const where = { url: gateway.url, agent, peer: peer.url, hangingPeer: hanging.url }

  const capacity = await capacityOf(where)
  const perSecond = rate ?? share * capacity
  say(`${capacity.toFixed(1)} plans a second at most, ${perSecond.toFixed(1)} from now on`)
  const outcomes = new Map<Outcome, number>()
  const stop = load(where, perSecond, (ends) => {
    for (const end of ends) outcomes.set(end, (outcomes.get(end) ?? 0) + 1)
  })
  const began = performance.now()
  const samples: Array<Sample> = []
  let cuts = 0
  while (performance.now() - began < ms) {
    await setTimeout(turnMs)
    if (performance.now() - began >= (samples.length + 1) * sampleMs) {
      const sample = await sampleOf(gateway, store, began)
      samples.push(sample)
      say(show(sample))
    }
    if (Math.random() < turnMs / cutMs) {
      cuts++
      await store.cut()
    }
  }
  await stop()
  const end = await settled(gateway, store, began)
  const withoutEnd = await store.withoutEnd()
  const kept = await store.kept()
  const rows = judge(samples)
  const bad = Array.from(outcomes.keys()).filter((outcome) => /^(unsent|lost)/.test(outcome))
  const problems = [
    ...(bad.length > 0
      ? [`plans without an answer or an end that their caller could see: ${bad.slice(0, 10).join(", ")}`]
      : []),
    ...rows.filter(({ isFlat }) => !isFlat).map(({ row: [name] }) => `${name} grew`),
    ...(withoutEnd > 0 ? [`${withoutEnd} plans have not exactly one end in the store`] : []),
    ...(end.running > 0 ? [`${end.running} plans are not over`] : []),
    ...(end.leases > 0 ? [`${end.leases} leases are left`] : [])
  ]
  const ends = [...outcomes].toSorted(([, a], [, b]) => b - a).map(([outcome, count]) => `${outcome}: ${count}`)
  return {
    isFine: problems.length === 0,
    text: `
${(ms / 60_000).toFixed(1)} minutes at ${perSecond.toFixed(1)} plans a second, of ${capacity.toFixed(1)} that it can do; ${cuts} cuts of all connections to Postgres.
${ends.join(", ")}

${align([["", "first", "middle", "last", "growth of the second half"], ...rows.map(({ row }) => row)])}

At rest again:${show(end)}
${kept}
${problems.length === 0 ? "Nothing grew, every plan had its end, and nothing is left." : `NOT FINE: ${problems.join("; ")}.`}`
  }
}
