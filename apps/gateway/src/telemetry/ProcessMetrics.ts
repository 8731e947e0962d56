import { counter, gauge, observe, observeCount } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Effect, Layer } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"

const memory = gauge({ name: "process.resident_memory", description: "Memory of the process", unit: "By" })
const heap = gauge({ name: "nodejs.heap_used", description: "Memory of JavaScript objects", unit: "By" })
const cpu = counter({ name: "process.cpu", description: "Processor time of the process, user and system", unit: "s" })
const started = gauge({ name: "process.start_time", description: "When the process started, since 1970", unit: "s" })
const resources = gauge({
  name: "nodejs.active_resources",
  description: "Sockets, timers, files and requests that keep the process alive"
})
const lag = gauge({
  name: "nodejs.eventloop.lag",
  description:
    "How late timers fire, since the last time that somebody read it: the median, the 99th percentile, the longest",
  unit: "s",
  labels: { statistic: ["p50", "p99", "max"] }
})

/** How often the lag of the event loop is sampled, in milliseconds. A sample is a wake-up of the process. */
const resolution = 50

const observeLag = Effect.gen(function* () {
  const delay = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const histogram = monitorEventLoopDelay({ resolution })
      histogram.enable()
      return histogram
    }),
    (histogram) => Effect.sync(() => histogram.disable())
  )
  /** What is sampled is the time between two samples. */
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - resolution / 1e3)
  yield* observe(lag.of({ statistic: "p50" }), () => late(delay.percentile(50)))
  yield* observe(lag.of({ statistic: "p99" }), () => late(delay.percentile(99)))
  yield* observe(lag.of({ statistic: "max" }), () => {
    const longest = late(delay.max)
    delay.reset()
    return longest
  })
})

/** What the operating system and Node.js know of this process. It is read when somebody asks, but for the lag of the event loop. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    yield* observe(memory.of({}), () => process.memoryUsage.rss())
    yield* observe(heap.of({}), () => process.memoryUsage().heapUsed)
    yield* observeCount(cpu.of({}), () => {
      const { system, user } = process.cpuUsage()
      return (system + user) / 1e6
    })
    yield* observe(started.of({}), () => performance.timeOrigin / 1e3)
    yield* observe(resources.of({}), () => process.getActiveResourcesInfo().length)
    yield* observeLag
  })
)
