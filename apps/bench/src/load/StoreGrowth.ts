import { Agent } from "node:http"
import { type Child, startGateway } from "../process/Child.ts"
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

/** What one more plan takes in a store of so many events, to one in a store that is empty, in rounds side by side. */
export const storeGrowth = async (
  postgres: Postgres,
  events: number,
  environment: { readonly [name: string]: string }
): Promise<number> => {
  await using running = new AsyncDisposableStack()
  const gatewayOn = async (count: number) => {
    const store = running.use(await keepFilledStore(postgres, count))
    return running.use(await startGateway({ ...environment, DATABASE_URL: store.url }))
  }
  const [empty, full] = [await gatewayOn(0), await gatewayOn(events)]
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
  return median(ratios)
}
