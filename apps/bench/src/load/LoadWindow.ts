import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import type { Child } from "../process/Child.ts"
import { ask } from "./Caller.ts"

/** How plans are asked for: so many at once, each with an answer of so many chunks. */
export interface Load {
  readonly chunks: number
  readonly concurrency: number
}

/** What a number of plans cost. */
export interface LoadWindow {
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

export const percentile99 = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN

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

/** Asks for so many plans. */
export const runWindow = async (
  { url, usage }: Child,
  plans: number,
  { chunks, concurrency }: Load
): Promise<LoadWindow> => {
  const agent = new Agent({ keepAlive: true, maxSockets: concurrency })
  const before = await usage()
  const began = performance.now()
  const firstTokens = await times(plans, concurrency, () => ask(url, agent, { chunks }))
  const seconds = (performance.now() - began) / 1_000
  // What is still to be done behind the last answers is a part of their cost.
  await setTimeout(100)
  agent.destroy()
  return {
    cpuPerPlan: ((await usage()).cpu - before.cpu) / plans,
    plansPerSecond: plans / seconds,
    firstToken: median(firstTokens)
  }
}

const agreement = 0.05
const maxWarmUp = 12

/** Warms a process up, until two windows in a row agree on the CPU of a plan. Says whether they ever did. */
export const warmUp = async (child: Child, plans: number, load: Load): Promise<boolean> => {
  let last = await runWindow(child, plans, load)
  for (let window = 1; window < maxWarmUp; window++) {
    const next = await runWindow(child, plans, load)
    if (Math.abs(next.cpuPerPlan / last.cpuPerPlan - 1) <= agreement) return true
    last = next
  }
  return false
}
