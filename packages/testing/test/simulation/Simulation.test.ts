import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect } from "effect"
import { execFile } from "node:child_process"
import { tmpdir } from "node:os"
import { promisify } from "node:util"
import { drawScenario } from "../../src/simulation/course/DrawScenario.ts"
import { type Fault, plainPlan, type ScenarioPlan } from "../../src/simulation/scenario/Scenario.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { tracesOf } from "./printTraces.ts"

/** The first seeds that kill a process. */
const seeds = Array.from({ length: 50 }, (_, index) => index + 1)
  .filter((seed) => drawScenario(seed).faults.some(({ _tag }) => _tag === "Kill"))
  .slice(0, 2)

const runs = [...seeds.map((seed) => ({ seed, store: "memory" }) as const), { seed: 3, store: "pglite" } as const]

describe("a simulated run", () => {
  it("is the same for the same seed, byte for byte, twice in a process and in another one elsewhere, in both stores", async () => {
    const first = await tracesOf(runs)
    assert.include(first, "is killed")
    assert.strictEqual(await tracesOf(runs), first)
    const script = new URL("printTraces.ts", import.meta.url).pathname
    const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(runs)], {
      cwd: tmpdir(),
      env: {
        TZ: "Pacific/Chatham",
        LC_ALL: "tr_TR.UTF-8",
        NODE_OPTIONS: "--max-semi-space-size=1 --stack-trace-limit=1"
      }
    })
    assert.strictEqual(stdout, first)
  }, 300_000)

  it("is another one for another seed", async () => {
    assert.notStrictEqual(
      await tracesOf([{ seed: 1, store: "memory" }]),
      (await tracesOf([{ seed: 2, store: "memory" }])).replace("seed 2", "seed 1")
    )
  })

  it("ends after so many steps, with the story of the whole run up to there", async () => {
    const whole = await simulate({ seed: 6 })
    const steps = Math.floor(whole.steps / 2)
    const part = await simulate({ seed: 6, steps })
    assert.strictEqual(part.steps, steps)
    assert.deepStrictEqual(part.trace, whole.trace.slice(0, part.trace.length))
    assert.isAbove(whole.trace.length, part.trace.length)
  })

  it("is held to the lease, the graces and the silence that are configured", async () => {
    const config = {
      leaseTtl: Duration.seconds(40),
      streamGrace: Duration.seconds(5),
      takeoverGrace: Duration.seconds(5),
      idleTimeout: Duration.seconds(20)
    }
    const plan = { ...plainPlan, steps: [{ words: 20, pauseMs: 1_000, calls: [] }] }
    const leaves: ScenarioPlan = { ...plan, onDisconnect: "cancel", acts: [{ _tag: "Leave", at: 2_000 }] }
    const kill: Fault = { _tag: "Kill", at: 3_000, replica: 0, tasks: 0, backMs: undefined }
    const stall: Fault = { _tag: "Provider", plan: "p0", request: 0, does: { _tag: "Stall", words: 2, ms: 60_000 } }
    const told = async (one: ScenarioPlan, replicas: number, ...faults: ReadonlyArray<Fault>) => {
      const scenario = { seed: 1, replicas, plans: [one], faults }
      const { observed, violations } = await simulate({ seed: 1, scenario, config })
      assert.deepStrictEqual(violations, [])
      return observed
    }
    const { plans } = await told(leaves, 1)
    assert.strictEqual(plans[0]?.plan.error?.reason, "disconnect")
    const { takeOvers } = await told(plan, 2, kill)
    assert.isAbove(takeOvers[0]?.at ?? 0, 40_000)
    const { windows } = await told(plan, 1, stall)
    assert.strictEqual(windows[0]?.reason, "idle_timeout")
    const unread = await told({ ...leaves, acts: [{ _tag: "Leave", at: 2_900 }] }, 2, kill)
    assert.strictEqual(unread.plans[0]?.plan.error?.reason, "disconnect")
  })

  it("finds what goes on in a process though every plan is over, whatever plan began it", async () => {
    const leaks = { "a fiber": Effect.never, "a timer": Effect.sleep("1 day") }
    for (const [what, leak] of Object.entries(leaks)) {
      const { observed, violations } = await simulate({
        seed: 1,
        scenario: { seed: 1, replicas: 1, plans: [plainPlan], faults: [] },
        overrides: {
          stores: (stores) => {
            const plans = Context.get(stores, PlanStore)
            const commit: (typeof plans)["commit"] = (batch) => Effect.tap(plans.commit(batch), Effect.forkDetach(leak))
            return Context.add(stores, PlanStore, { ...plans, commit })
          }
        }
      })
      assert.include(
        observed.left.map((left) => `a ${left.what}`),
        what
      )
      assert.include(
        violations.map(({ rule }) => rule),
        "oneEnd"
      )
    }
  })
})
