import { Agent, request } from "node:http"
import { setTimeout } from "node:timers/promises"
import { type FrameReader, readFrames } from "../load/Frames.ts"
import { median, percentile99, times } from "../load/LoadWindow.ts"
import type { Child } from "../process/Child.ts"
import { askings, models, now, type PlanRequest } from "../server/Traffic.ts"
import type { Original } from "./ParkedStore.ts"

/** From the instant at which something was sent to a plan, in milliseconds. */
export interface Delays {
  readonly median: number
  readonly p99: number
  readonly count: number
}

const toDelays = (delays: ReadonlyArray<number>): Delays => ({
  median: median(delays),
  p99: percentile99(delays),
  count: delays.length
})

/** Puts an entry into an inbox, and says when it was sent. */
const say = ({ url }: Child, agent: Agent, plan: string, entry: object): Promise<number> =>
  new Promise((resolve, reject) => {
    const at = now()
    const headers = { "content-type": "application/json" }
    request(`${url}/plans/${plan}/inbox`, { agent, headers, method: "POST" })
      .on("error", reject)
      .on("response", (response) => {
        response.resume().on("error", reject)
        if (response.statusCode === 202) response.on("end", () => resolve(at))
        else reject(new Error(`An entry was not accepted: ${response.statusCode}`))
      })
      .end(JSON.stringify(entry))
  })

/** Begins something for each of them, so many a second, however long it takes. */
const atRate = async <A, B>(rate: number, all: ReadonlyArray<A>, begin: (one: A, index: number) => Promise<B>) => {
  const began = performance.now()
  const begun: Array<Promise<B>> = []
  for (const [index, one] of all.entries()) {
    begun.push(begin(one, index))
    await setTimeout(Math.max(0, began + ((index + 1) / rate) * 1_000 - performance.now()))
  }
  return Promise.all(begun)
}

/** How long a reader has read before something happens. */
const settledMs = 1_000

/** Answers parked plans that somebody reads, at one gateway after the other, and reads each to its end. Gives the delays until `woken` was read. */
export const wake = async (
  gateways: ReadonlyArray<Child>,
  plans: ReadonlyArray<Original>,
  rate: number
): Promise<Delays> => {
  const agent = new Agent()
  const delays = await atRate(rate, plans, async ({ plan_id, task_id }, index) => {
    const gateway = gateways[index % gateways.length]
    if (gateway === undefined) throw new Error("There is no gateway")
    const reader = readFrames(`${gateway.url}/plans/${plan_id}/events`, agent)
    await reader.first("parked")
    await setTimeout(settledMs)
    const at = await say(gateway, agent, plan_id, { type: "result", task_id, content: "red" })
    const woken = await reader.first("woken")
    await reader.first("final")
    return woken.at - at
  })
  agent.destroy()
  return toDelays(delays)
}

/** The first plans meet code that is not compiled yet. */
const untimed = 50
const steersPerSecond = 20

/** Says something to plans of the gateway `at` whose model speaks, through another gateway or the same one. Gives the delays until the provider had the next request. */
export const steer = async (at: Child, through: Child, provider: Child, plans: number): Promise<Delays> => {
  const agent = new Agent()
  const open = await times(plans, 16, async (): Promise<FrameReader> => {
    const body: PlanRequest = { question: "What is the state of the order?", preferences: { model: models.slow } }
    const reader = readFrames(`${at.url}/plan`, agent, body)
    await reader.first("text.delta")
    return reader
  })
  const sent = await atRate(steersPerSecond, open, async (reader, index) => {
    const { data } = await reader.first("session")
    const text = `And of number ${index}, ${now()}?`
    return [text, await say(through, agent, String(data["plan_id"]), { type: "text", text, when: "now" })] as const
  })
  await setTimeout(settledMs)
  const asked = (await (await fetch(provider.url + askings)).json()) as { [question: string]: number }
  for (const { leave } of open) leave()
  return toDelays(sent.slice(untimed).map(([text, at]) => (asked[text] ?? Infinity) - at))
}
