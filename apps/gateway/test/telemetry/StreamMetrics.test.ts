import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Metric, Stream } from "effect"
import { TestClock } from "effect/testing"
import { writing } from "../../src/telemetry/StreamMetrics.ts"
import { text } from "../../src/telemetry/PrometheusText.ts"
import { parse } from "./Scrape.ts"

const frame = (event: "session" | "final" | "done"): ReaderItem => ({
  seq: 1,
  at: "2026-01-02T03:04:05.678Z",
  event,
  payload: "{}"
})

/** Writes a stream, and gives what was measured of it, by name and cause. */
const measure = <E>(stream: Stream.Stream<ReaderItem, E>, closeAfter: "1 minute" | "1 hour" = "1 hour") =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Stream.runDrain(writing(stream, () => new Uint8Array(1))))
    yield* TestClock.adjust(closeAfter)
    // Somebody sets the clock meanwhile.
    yield* TestClock.setTime(0)
    yield* Fiber.interrupt(fiber)
    const samples = [...parse(yield* text).values()].flatMap((family) => family.samples)
    const measured = samples
      .filter(({ name, value }) => /_stream/.test(name) && !name.endsWith("_bucket") && value > 0)
      .map(({ labels, name, value }) => [[name.slice("bowline_".length), ...Object.values(labels)].join(" "), value])
    return Object.fromEntries(measured) as Record<string, number>
  }).pipe((effect) => Effect.suspend(() => Effect.provideService(effect, Metric.MetricRegistry, new Map())))

const after = (duration: "10 seconds" | "20 seconds", item: ReaderItem) =>
  Stream.fromEffect(Effect.delay(Effect.succeed(item), duration))

describe("a stream", () => {
  it.effect("counts its frames and pings, and nothing else if it ends with done", () =>
    Effect.gen(function* () {
      const whole = Stream.fromArray([frame("session"), frame("final"), "ping" as const, frame("done")])
      assert.deepStrictEqual(yield* measure(whole), { stream_frames_total: 3, stream_pings_total: 1 })
      assert.deepStrictEqual(yield* measure(Stream.empty), {})
    })
  )

  it.effect("measures without done how old its last frame is, by who closes it", () =>
    Effect.gen(function* () {
      const first = Stream.make(frame("session"))
      const silent = Stream.concat(Stream.concat(first, after("10 seconds", "ping")), Stream.never)
      assert.deepStrictEqual(yield* measure(silent, "1 minute"), {
        stream_frames_total: 1,
        stream_pings_total: 1,
        "stream_silence_at_close_seconds_count caller": 1,
        "stream_silence_at_close_seconds_sum caller": 60
      })
      assert.deepStrictEqual(yield* measure(Stream.concat(first, after("20 seconds", "reconnect"))), {
        stream_frames_total: 1,
        "stream_silence_at_close_seconds_count reconnect": 1,
        "stream_silence_at_close_seconds_sum reconnect": 20
      })
      assert.deepStrictEqual(yield* measure(Stream.concat(first, Stream.die("broken"))), {
        stream_frames_total: 1,
        "stream_silence_at_close_seconds_count failed": 1
      })
    })
  )

  it.effect("is open until it closes", () =>
    Effect.gen(function* () {
      const open = Effect.map(text, (text) => /^bowline_streams_open (\d)$/m.exec(text)?.[1])
      const fiber = yield* Effect.forkChild(Stream.runDrain(writing(Stream.never, () => new Uint8Array(1))))
      yield* TestClock.adjust(0)
      assert.strictEqual(yield* open, "1")
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* open, "0")
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})
