import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import type { Child } from "../process/Child.ts"
import { closings, now } from "../server/Traffic.ts"
import { open } from "./Caller.ts"
import { median, percentile99, times } from "./LoadWindow.ts"

/** What many open, slow streams cost, and how fast they end. */
export interface OpenStreams {
  /** Memory of each, in KiB. */
  readonly memory: number
  /** From a caller's leaving to the end of the provider's socket, in milliseconds: the 99th percentile, when all leave at once. */
  readonly closedAtOnce: number
  /** The same when one leaves after the other. */
  readonly closedInTurn: number
}

/** Milliseconds between two callers that leave in turn. */
const pace = 5

/** A stream by its question, which names it for the provider, too. */
type Streams = Map<string, () => void>

const openAll = async (url: string, agent: Agent, count: number): Promise<Streams> => {
  const streams: Streams = new Map()
  let opened = 0
  await times(count, 32, async () => {
    const question = `Stream ${now()}, ${++opened}`
    streams.set(question, await open(url, agent, question))
  })
  return streams
}

/** When the provider saw its sockets close, once it has seen all of these. */
const closed = async (provider: Child, streams: Streams): Promise<{ readonly [question: string]: number }> => {
  for (let round = 0; ; round++) {
    const seen = (await (await fetch(provider.url + closings)).json()) as { [question: string]: number }
    if (Array.from(streams.keys()).every((question) => question in seen)) return seen
    if (round > 100) throw new Error("Callers have left, and the sockets of the provider are still open")
    await setTimeout(100)
  }
}

/** Lets the callers leave, and gives how long it took until the provider's sockets were closed. */
const leave = async (provider: Child, streams: Streams, wait: number): Promise<number> => {
  const left = new Map<string, number>()
  for (const [question, close] of streams) {
    left.set(question, now())
    close()
    if (wait > 0) await setTimeout(wait)
  }
  const seen = await closed(provider, streams)
  return percentile99(Array.from(left, ([question, at]) => (seen[question] ?? Infinity) - at))
}

/** Opens so many slow streams, twice. */
export const openStreams = async ({ url, usage }: Child, provider: Child, count: number): Promise<OpenStreams> => {
  const agent = new Agent()
  const before = await usage()
  const streams = await openAll(url, agent, count)
  const samples: Array<number> = []
  while (samples.length < 20) {
    await setTimeout(500)
    samples.push((await usage()).resident)
  }
  const closedAtOnce = await leave(provider, streams, 0)
  const closedInTurn = await leave(provider, await openAll(url, agent, count), pace)
  return { memory: (median(samples) - before.resident) / count, closedAtOnce, closedInTurn }
}
