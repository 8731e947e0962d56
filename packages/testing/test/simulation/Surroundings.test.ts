import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { callTool, say } from "../../src/provider/Turn.ts"
import { drawScenario, drawAppScenario } from "../../src/simulation/course/DrawScenario.ts"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import { type Fault, pays, plainPlan, type Scenario } from "../../src/simulation/scenario/Scenario.ts"
import { type AppWorld, simulate } from "../../src/simulation/Simulation.ts"
import { tellFailure } from "../../src/simulation/Story.ts"
import { tools } from "../../src/simulation/world/Tools.ts"
import type { TraceLine } from "../../src/simulation/world/World.ts"

type Tool = (typeof LocalTools.Service)[number]

const did = { state: "completed", content: "did it" } as const

/** What is seen of one plan whose steps call this tool, one behind the other, with these faults. */
const run = async (
  tool: string,
  calls: number,
  ...faults: ReadonlyArray<Fault>
): Promise<Observed & { readonly trace: ReadonlyArray<TraceLine> }> => {
  const steps = Array.from({ length: calls }, (_, step) => ({
    words: 1,
    pauseMs: 1,
    calls: [{ key: `p0/${step}.0`, tool, ms: 500 }]
  }))
  const { observed, trace, violations } = await simulate({
    seed: 1,
    scenario: {
      seed: 1,
      replicas: 1,
      plans: [{ ...plainPlan, timeoutMs: 20_000, steps: [...steps, ...plainPlan.steps] }],
      faults
    }
  })
  assert.deepStrictEqual(violations, [])
  return { ...observed, trace }
}

const faultsOf = (scenarios: ReadonlyArray<Scenario>) => scenarios.flatMap(({ faults }) => faults)
const states = ({ plans }: Observed) => plans.flatMap(({ tasks }) => tasks.map(({ state }) => state))
const called = ({ calls }: Observed) => calls.map(({ key }) => key)
const results = ({ attempts }: Observed) => attempts.map(({ credential, result }) => `${credential} ${result}`)

describe("what surrounds a simulated gateway", () => {
  const mcp = (does: Extract<Fault, { _tag: "Mcp" }>["does"]) =>
    run("desk_note", 1, { _tag: "Mcp", key: "p0/0.0", does })

  it("answers calls of MCP tools, and breaks those that a scenario breaks", async () => {
    assert.deepStrictEqual(states(await run("desk_note", 2)), ["completed", "completed"])
    assert.deepStrictEqual(states(await mcp({ _tag: "Fail" })), ["failed"])
    assert.deepStrictEqual(states(await mcp({ _tag: "Garbled" })), ["failed"])
    assert.deepStrictEqual(states(await mcp({ _tag: "Break", kind: "reset" })), ["failed"])
    assert.deepStrictEqual(states(await mcp({ _tag: "Late", ms: 5_000 })), ["completed"])
    const refused = await mcp({ _tag: "Refuse", status: 503 })
    assert.deepStrictEqual([states(refused), called(refused)], [["failed"], []])
  })

  it("is told to cancel a call of an MCP tool that never ends", async () => {
    const { calls, plans } = await mcp({ _tag: "Silent" })
    assert.strictEqual(plans[0]?.plan.state, "aborted")
    assert.strictEqual(calls[0]?.cancels.length, 1)
  })

  it("is told to cancel a call of an MCP tool whose connection is lost", async () => {
    const silent: Fault = { _tag: "Mcp", key: "p0/0.0", does: { _tag: "Silent" } }
    const ran = await run("desk_note", 1, silent, { _tag: "NetworkReset", at: 1_500, replica: 0 })
    assert.deepStrictEqual([states(ran), ran.resets.map(({ call }) => call)], [["failed"], ["p0/0.0"]])
    assert.strictEqual(ran.calls[0]?.cancels.length, 1)
  })

  it("has an MCP server that forgets its sessions, changes its tools, or is silent", async () => {
    const server = (does: Extract<Fault, { _tag: "McpServer" }>["does"], at: number) =>
      run("desk_note", 2, { _tag: "McpServer", at, ms: 15_000, does })
    // It is connected to once more, and is called once.
    const forgetful = await server("forgets", 700)
    assert.deepStrictEqual(
      [states(forgetful), called(forgetful)],
      [
        ["completed", "completed"],
        ["p0/0.0", "p0/1.0"]
      ]
    )
    assert.deepStrictEqual(states(await server("changes its tools", 700)), ["completed", "completed"])
    const silent = await server("silent", 0)
    assert.deepStrictEqual(called(silent), [])
    assert.isTrue(silent.plans[0]?.frames.some(({ event }) => event === "notice"))
  })

  it("has a peer that is spoken to as its card says at that moment", async () => {
    for (const becomes of ["other dialect", "missing", "garbled", "late"] as const) {
      const ran = await run("auto_ask", 2, { _tag: "Card", at: 0, ms: 400, becomes })
      assert.deepStrictEqual(states(ran), ["completed", "completed"], becomes)
      const cards = ran.trace.filter(({ where }) => where === "auto").map(({ what }) => what)
      assert.include(cards, `shows its card: ${becomes}`)
    }
  })

  it("has providers that take no request, or not this credential, for a while", async () => {
    const expired = await run("work", 3, { _tag: "Expire", at: 200, ms: 3_000, credential: "openai-1" })
    assert.include(results(expired), "openai-1 auth")
    assert.deepStrictEqual(
      expired.windows.map(({ credential, reason }) => `${credential} ${reason}`),
      ["openai-1 auth"]
    )
    const storm = await run("work", 3, { _tag: "Storm", at: 200, ms: 3_000, provider: "openai", retryAfterS: 2 })
    assert.includeMembers(results(storm), ["openai-1 rate_limited", "openai-2 rate_limited"])
  })
})

describe("the world of an app", () => {
  it("asks the app's model everything but the question of each session in the end", async () => {
    const asked: Array<string> = []
    const { observed, violations } = await simulate({
      seed: 1,
      scenario: { seed: 1, replicas: 1, plans: [{ ...plainPlan, question: "Well?" }], faults: [] },
      world: () => ({
        questions: ["Well?"],
        script: ({ messages }) => {
          const last = messages.at(-1)
          if (last?.role === "user") asked.push(last.text)
          return [say("Well.")]
        }
      })
    })
    assert.deepStrictEqual(violations, [])
    assert.deepStrictEqual(asked, ["FACT-p0 Well?"])
    assert.deepStrictEqual(
      observed.attempts.map(({ plan, said }) => `${plan} ${said}`),
      ["p0 Well.", "probe0 probe0.0.0 "]
    )
  })

  it("begins anew with each run, so that a tool with a state of its own shrinks to a run that fails, and its story ends with the reason", async () => {
    const shop = (): AppWorld => {
      const paid: Array<string> = []
      const inputSchema = { type: "object" }
      const pay: Tool = { ...tools[0], name: "pay", inputSchema, call: () => Effect.sync(() => (paid.push(""), did)) }
      return {
        tools: Layer.succeed(LocalTools, [pay]),
        script: ({ messages }) =>
          messages.some(({ role }) => role === "tool") ? [say("Paid.")] : [callTool("pay", {})],
        rules: { "one is paid": () => (paid.length === 2 ? ["two are paid"] : []) }
      }
    }
    const plans = ["p0", "p1"].map((name) => ({ ...plainPlan, name, session: name, question: "Pay.", steps: [] }))
    const faults: ReadonlyArray<Fault> = [{ _tag: "NetworkReset", at: 9_000, replica: 0 }]
    const options = { seed: 1, scenario: { seed: 1, replicas: 2, plans, faults }, world: shop }
    const failed = await simulate(options)
    const story = await tellFailure(failed, options)
    assert.strictEqual(story[0], "Seed 1 breaks a rule. To repeat it: simulate({ seed: 1, world: shop })")
    assert.include(story, "  1 replicas")
    assert.deepStrictEqual(story.slice(-4), [
      "What is wrong there:",
      "  one is paid: two are paid",
      "The faults that it takes:",
      "  none"
    ])
  })

  it("has each kind of fault at least half as often as the gateway's own, and one or two plans", () => {
    // An app's callers pay nothing that the bank of the world knows of.
    const seeds = Array.from({ length: 500 }, (_, index) => index + 1).filter((seed) => !pays(drawScenario(seed)))
    const drawn = seeds.map((seed) => drawAppScenario(seed, ["Well?"]))
    const ofApp = Map.groupBy(faultsOf(drawn), ({ _tag }) => _tag)
    // An app's callers answer nothing.
    const ofGateway = faultsOf(seeds.map((seed) => drawScenario(seed))).filter(
      (fault) => fault._tag !== "Peer" || fault.does._tag !== "Asks"
    )
    for (const [kind, usual] of Map.groupBy(ofGateway, ({ _tag }) => _tag)) {
      assert.isAbove(ofApp.get(kind)?.length ?? 0, usual.length / 2, kind)
    }
    assert.deepStrictEqual(new Set(drawn.map(({ plans }) => plans.length)), new Set([1, 2]))
  })
})
