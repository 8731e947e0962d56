import { assert, describe, it } from "@effect/vitest"
import { Array, Context, Option, Tracer } from "effect"
import * as Sampler from "../../src/telemetry/Sampler.ts"

const native = Tracer.make({ span: (options) => new Tracer.NativeSpan(options) })

const begin = (sampler: Parameters<typeof Sampler.sample>[1], parent?: Tracer.AnySpan, name = "plan") =>
  Sampler.sample(native, sampler).span({
    name,
    parent: Option.fromUndefinedOr(parent),
    annotations: Context.empty(),
    links: [],
    startTime: 0n,
    kind: "internal",
    root: parent === undefined,
    sampled: parent?.sampled ?? true
  })

const caller = (sampled: boolean, digits = "8".repeat(14)) =>
  Tracer.externalSpan({ traceId: digits.padStart(32, "1"), spanId: "1".repeat(16), sampled })

const on = { name: "always_on", ratio: 1 } as const

describe("Sampler", () => {
  it.each([
    ["always_on", [true, true, true]],
    ["always_off", [false, false, false]],
    ["parentbased_always_on", [true, true, false]],
    ["parentbased_always_off", [false, true, false]]
  ] as const)("%s decides without a caller's span, with a sampled one, and with one that is not", (name, expected) => {
    const decisions = [undefined, caller(true), caller(false)].map(
      (parent) => begin({ name, ratio: 1 }, parent).sampled
    )
    assert.deepStrictEqual(decisions, [...expected])
  })

  it("takes the share of the traces, and the same ones in every process", () => {
    const sampler = { name: "traceidratio", ratio: 0.5 } as const
    const edge = ["7ffffffffffff0", "80000000000000"].map((digits) => begin(sampler, caller(false, digits)).sampled)
    assert.deepStrictEqual(edge, [true, false])
    const taken = Array.range(1, 2_000).filter(() => begin(sampler).sampled).length
    assert.isTrue(taken > 800 && taken < 1_200, `${taken}`)
  })

  it("decides once for a trace of this process", () => {
    const off = begin({ name: "always_off", ratio: 1 })
    assert.isFalse(begin(on, off).sampled)
    const kept = begin(on)
    assert.isTrue(begin({ name: "always_off", ratio: 1 }, kept).sampled)
  })

  it("never takes statements to the database", () => {
    assert.isFalse(begin(on, caller(true), "sql.execute").sampled)
  })
})
