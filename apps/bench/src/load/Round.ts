import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import type { Child } from "../process/Child.ts"
import { cpuMillis, residentKiB } from "../process/ProcessUsage.ts"
import { ask, open } from "./Caller.ts"

/** What a number of plans cost. */
export interface Round {
  readonly cpuPerPlan: number
  readonly plansPerSecond: number
  /** The median, in milliseconds. */
  readonly firstToken: number
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 0 ? (high + (sorted[middle - 1] ?? Number.NaN)) / 2 : high
}

/** Calls a function so many times, some of them at once. */
export const times = async <A>(count: number, concurrency: number, call: () => Promise<A>): Promise<Array<A>> => {
  const results: Array<A> = []
  let left = count
  const worker = async () => {
    while (left-- > 0) results.push(await call())
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, worker))
  return results
}

/** Asks `plans` questions, `concurrency` of them at once. */
export const runRound = async ({ url, pid }: Child, plans: number, concurrency: number): Promise<Round> => {
  const agent = new Agent({ keepAlive: true, maxSockets: concurrency })
  const cpu = cpuMillis(pid)
  const began = performance.now()
  const firstTokens = await times(plans, concurrency, () => ask(url, agent))
  const seconds = (performance.now() - began) / 1_000
  // What is still to be done behind the last answers is a part of their cost.
  await setTimeout(100)
  agent.destroy()
  return {
    cpuPerPlan: (cpuMillis(pid) - cpu) / plans,
    plansPerSecond: plans / seconds,
    firstToken: median(firstTokens)
  }
}

/** The memory, in KiB, that each of so many open, slow streams takes. */
export const memoryPerStream = async ({ url, pid }: Child, streams: number): Promise<number> => {
  const agent = new Agent()
  const before = residentKiB(pid)
  const closes = await times(streams, 32, () => open(url, agent))
  const samples: Array<number> = []
  while (samples.length < 20) {
    await setTimeout(500)
    samples.push(residentKiB(pid))
  }
  for (const close of closes) close()
  await setTimeout(2_000)
  return (median(samples) - before) / streams
}
