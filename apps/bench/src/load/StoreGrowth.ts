import { Agent } from "node:http"
import { type Child, start, startGateway } from "../process/Child.ts"
import { keepFilledStore, type Postgres } from "../process/PostgresServer.ts"
import { ask } from "./Caller.ts"
import { median } from "./LoadWindow.ts"

const rounds = 24
const plansOfRound = 25
const chunks = 32

/** The milliseconds that a plan takes, one after the other: what the database does for it is a part of that. */
const timePerPlan = async ({ url }: Child, agent: Agent): Promise<number> => {
  const began = performance.now()
  for (let plan = 0; plan < plansOfRound; plan++) await ask(url, agent, { chunks })
  return (performance.now() - began) / plansOfRound
}

/** Events of each plan of a filled store, and plans of the one that the other is compared with. */
const eventsOfPlan = 20
const youngPlans = 10_000

/** What has grown: the time of a plan, through the gateway, and of operations of the stores. 1 is no growth. */
export interface StoreGrowth {
  readonly plan: number
  readonly operations: Readonly<Record<string, number>>
}

/**
 * What one more plan, and other operations, take in a store of so many events, to those in a store of 10,000 plans, in rounds side by side.
 */
export const storeGrowth = async (
  postgres: Postgres,
  events: number,
  environment: { readonly [name: string]: string }
): Promise<StoreGrowth> => {
  await using running = new AsyncDisposableStack()
  const young = running.use(await keepFilledStore(postgres, youngPlans * eventsOfPlan))
  const grown = running.use(await keepFilledStore(postgres, events))
  const measuring = [young.url, grown.url, String(youngPlans), String(Math.ceil(events / eventsOfPlan))]
  const { url: medians, ...measurer } = await start("packages/storage-sql/test/postgres/measureStores.ts", measuring)
  await measurer[Symbol.asyncDispose]()
  const operations = Object.entries(JSON.parse(medians) as Record<string, readonly [number, number]>)
  const gatewayOn = async ({ url }: Child) => running.use(await startGateway({ ...environment, DATABASE_URL: url }))
  const [empty, full] = [await gatewayOn(young), await gatewayOn(grown)]
  const agent = new Agent({ keepAlive: true })
  running.defer(() => agent.destroy())
  for (const gateway of [empty, full, empty, full]) await timePerPlan(gateway, agent)
  const ratios: Array<number> = []
  while (ratios.length < rounds) {
    // In turns: neither has the quieter half of each round.
    const isEven = ratios.length % 2 === 0
    const first = await timePerPlan(isEven ? empty : full, agent)
    const second = await timePerPlan(isEven ? full : empty, agent)
    ratios.push(isEven ? second / first : first / second)
  }
  return {
    plan: median(ratios),
    operations: Object.fromEntries(operations.map(([name, [first, second]]) => [name, second / first]))
  }
}
