import { Struct } from "effect"
import type { FaultKinds } from "./DrawFault.ts"
import { times } from "./DrawPlan.ts"
import type { SeededRandom } from "../scenario/SeededRandom.ts"
import type { Fault, PeerFault, Scenario, ScenarioCall, ScenarioPlan } from "../scenario/Scenario.ts"
import { peerTools } from "../world/Peers.ts"
import { mcpTools } from "../world/Servers.ts"

/** The plan in a session of its own, with these calls one after the other, and nothing that keeps it from making them. */
const alone = (plan: ScenarioPlan, ...calls: ReadonlyArray<ScenarioCall>): ScenarioPlan => ({
  ...Struct.omit(plan, ["approval", "budget"]),
  session: `${plan.name} alone`,
  timeoutMs: 120_000,
  steps: [...calls.map((call) => ({ words: 1, pauseMs: 1, calls: [call] })), ...plan.steps.slice(-1)],
  acts: []
})

/** Plots that every scenario may have, whatever else it has: each in so many of 100. */
const extras: ReadonlyArray<{
  readonly percent: number
  readonly needs: FaultKinds
  readonly draw: (
    random: SeededRandom,
    plan: ScenarioPlan,
    replicas: number
  ) => { readonly plan: ScenarioPlan; readonly faults: ReadonlyArray<Fault> }
}> = [
  {
    // A peer answers late, and by then the process is dead that has asked it.
    percent: 6,
    needs: new Set(["peers", "process"]),
    draw: (random, plan) => {
      const key = `${plan.name}/0.0`
      const call = { key, tool: random.pick(["one_ask", ...peerTools]), ms: random.int(0, 20_000) }
      const late = { _tag: "Late" as const, ms: random.int(1_000, 20_000) }
      const at = plan.at + random.int(200, late.ms)
      const steps = [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps.slice(-1)]
      const backMs = random.int(100, 20_000)
      return {
        plan: { ...plan, timeoutMs: 120_000, steps },
        faults: [
          { _tag: "Peer", key, does: late },
          { _tag: "Kill", at, replica: plan.replica, tasks: 0, backMs }
        ]
      }
    }
  },
  {
    // The connections break on which a peer tells how its task goes on.
    percent: 4,
    needs: new Set(["peers"]),
    draw: (random, plan) => {
      const key = `${plan.name}/0.0`
      const call = { key, tool: random.pick(["one_ask", ...peerTools]), ms: random.int(500, 20_000) }
      const does: PeerFault = { _tag: "Polls", kind: random.pick(["cut", "reset", "refuse"]), times: random.int(1, 4) }
      const steps = [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps.slice(-1)]
      return { plan: { ...plan, timeoutMs: 120_000, steps }, faults: [{ _tag: "Peer", key, does }] }
    }
  },
  {
    // So much is said that a slow reader is cut off.
    percent: 2,
    needs: new Set(["callers"]),
    draw: (random, plan) => {
      const step = { words: random.int(1_200, 1_500), pauseMs: random.int(0, 3), calls: [] }
      return {
        plan: { ...plan, readMs: random.int(10, 60), timeoutMs: 120_000, steps: [...plan.steps.slice(0, -1), step] },
        faults: []
      }
    }
  },
  {
    // One provider fails, again and again, and then the next one.
    percent: 4,
    needs: new Set(["provider"]),
    draw: (random, plan) => ({
      plan: { ...plan, timeoutMs: 240_000 },
      faults: times(random.int(4, 9), (request) => ({
        _tag: "Provider",
        plan: plan.name,
        request,
        does: { _tag: "Refuse", status: random.pick([500, 503]) }
      }))
    })
  },
  {
    percent: 3,
    needs: new Set(),
    draw: (random, plan) => ({
      plan: { ...plan, json: random.pick(["at once", "repaired", "never"]) },
      faults: []
    })
  },
  {
    percent: 3,
    needs: new Set(["peers"]),
    draw: (random, plan) => {
      const only = { key: `${plan.name}/only`, tool: random.pick(["one_ask", ...peerTools]), ms: random.int(0, 5_000) }
      const { budget: _, ...rest } = plan
      const does = random.pick<PeerFault>([
        { _tag: "Fail" },
        { _tag: "State", state: "input-required" },
        { _tag: "Refuse", status: 503 }
      ])
      return { plan: { ...rest, only }, faults: random.chance(50) ? [{ _tag: "Peer", key: only.key, does }] : [] }
    }
  },
  {
    percent: 3,
    needs: new Set(["peers"]),
    draw: (random, plan) => {
      const call = { key: `${plan.name}/0.0`, tool: random.pick(["desk_note", ...mcpTools]), ms: random.int(0, 2_000) }
      const steps = [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps.slice(-1)]
      const away = { at: Math.max(0, plan.at - random.int(0, 2_000)), ms: random.int(100, 20_000) }
      return {
        plan: { ...plan, needsServers: true, steps },
        faults: [{ _tag: "McpServer", ...away, does: random.pick(["silent", "silent", "forgets"]) }]
      }
    }
  },
  {
    // A call of a peer outlasts its time, and the process that has made it.
    percent: 4,
    needs: new Set(["peers", "process"]),
    draw: (random, plan) => {
      const call = {
        key: `${plan.name}/0.0`,
        tool: random.pick(["one_ask", ...peerTools]),
        ms: random.int(30_000, 60_000)
      }
      const steps = [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps.slice(-1)]
      const at = plan.at + random.int(1_000, 6_000)
      return {
        plan: { ...plan, timeoutMs: 120_000, toolTimeoutMs: random.int(18_000, 35_000), steps },
        faults: [{ _tag: "Kill", at, replica: plan.replica, tasks: 0, backMs: random.int(100, 20_000) }]
      }
    }
  },
  {
    // A key is refused, is good again, and is refused again.
    percent: 3,
    needs: new Set(["provider"]),
    draw: (random, plan) => {
      const step = (index: number) => {
        const call = { key: `${plan.name}/${index}.0`, tool: "work", ms: random.int(1_200, 2_500) }
        return { words: 1, pauseMs: 1, calls: [call] }
      }
      const refuse = (request: number, retryAfterS?: number): Fault => ({
        _tag: "Provider",
        plan: plan.name,
        request,
        does: { _tag: "Refuse", status: 429, ...(retryAfterS !== undefined && { retryAfterS }) }
      })
      const { budget: _, ...rest } = plan
      return {
        plan: {
          ...rest,
          timeoutMs: 120_000,
          model: random.pick(["anthropic/sim", "responses/sim"]),
          steps: [...times(2, step), ...plan.steps.slice(-1)]
        },
        faults: [refuse(1, random.int(1, 4)), refuse(3)]
      }
    }
  },
  {
    // A process shuts down while a provider talks that has said already what that takes.
    percent: 3,
    needs: new Set(["provider", "process"]),
    draw: (random, plan) => ({
      plan: {
        ...plan,
        timeoutMs: 200_000,
        model: random.pick(["openai/sim", "responses/sim"]),
        steps: [{ words: random.int(40, 60), pauseMs: 1_000, calls: [] }]
      },
      faults: [
        { _tag: "Provider", plan: plan.name, request: 0, does: { _tag: "EarlyUsage" } },
        { _tag: "Drain", at: plan.at + random.int(200, 5_000), replica: plan.replica, backMs: random.int(100, 20_000) }
      ]
    })
  },
  {
    // Somebody decides, and no notice of it reaches the writer.
    percent: 4,
    needs: new Set(["store", "callers"]),
    draw: (random, plan) => {
      const at = random.int(500, 4_000)
      const call = { key: `${plan.name}/0.0`, tool: random.pick(["work", "repeat"]), ms: random.int(0, 2_000) }
      const steps = [{ words: 1, pauseMs: 1, calls: [call] }, ...plan.steps.slice(-1)]
      const act = { _tag: "Decide" as const, at, replica: random.int(0, 2), approves: random.chance(70) }
      const deaf = { at: plan.at + at - random.int(0, 500), replica: plan.replica, ms: random.int(500, 15_000) }
      const { budget: _, ...rest } = plan
      return {
        plan: { ...rest, approval: "always", timeoutMs: 120_000, steps, acts: [act] },
        faults: [{ _tag: "Notices", ...deaf, become: random.pick<"lost" | "late">(["lost", "lost", "late"]) }]
      }
    }
  },
  {
    percent: 10,
    needs: new Set(),
    draw: (random, plan) => ({ plan: { ...plan, toolTimeoutMs: random.int(200, 4_000) }, faults: [] })
  },
  {
    // Somebody cancels at another replica a plan that talks for long, and no notice of it reaches the writer.
    percent: 3,
    needs: new Set(["store", "callers"]),
    draw: (random, plan, replicas) => {
      const at = random.int(1_000, 4_000)
      const act = { _tag: "Cancel" as const, at, replica: (plan.replica + 1) % replicas }
      const deaf = { at: plan.at + at - random.int(0, 500), replica: plan.replica, ms: random.int(8_000, 15_000) }
      const steps = [{ words: random.int(20, 30), pauseMs: 1_000, calls: [] }]
      return {
        plan: { ...plan, session: `${plan.name} alone`, timeoutMs: 120_000, readMs: 0, steps, acts: [act] },
        faults: [{ _tag: "Notices", ...deaf, become: "lost" }]
      }
    }
  },
  {
    // A process dies when its plan has made as many calls as it may.
    percent: 3,
    needs: new Set(["process"]),
    draw: (random, plan) => {
      const ms = random.int(1_000, 3_000)
      const at = plan.at + random.int(300, ms + 300)
      const calls = times(2, (index) => ({ key: `${plan.name}/${index}.0`, tool: "repeat", ms }))
      return {
        plan: { ...alone(plan, ...calls), budget: { max_tool_calls: 1 } },
        faults: [{ _tag: "Kill", at, replica: plan.replica, tasks: 0, backMs: random.int(100, 20_000) }]
      }
    }
  },
  {
    // Somebody cancels a plan while an agent or an MCP server works for it.
    percent: 3,
    needs: new Set(["peers", "callers"]),
    draw: (random, plan) => {
      const tool = random.pick(["one_ask", ...peerTools, ...mcpTools, ...mcpTools, ...mcpTools])
      const call = { key: `${plan.name}/0.0`, tool, ms: random.int(15_000, 25_000) }
      const act = { _tag: "Cancel" as const, at: random.int(1_000, 5_000), replica: plan.replica }
      return { plan: { ...alone(plan, call), acts: [act] }, faults: [] }
    }
  },
  {
    // An agent has given a part of its answer when the process dies that has asked it.
    percent: 3,
    needs: new Set(["peers", "process"]),
    draw: (random, plan) => {
      const call = { key: `${plan.name}/0.0`, tool: "one_ask", ms: random.int(10_000, 20_000) }
      const at = plan.at + random.int(1_500, 5_000)
      return {
        plan: alone(plan, call),
        faults: [{ _tag: "Kill", at, replica: plan.replica, tasks: 0, backMs: random.int(100, 5_000) }]
      }
    }
  }
]

/** Lets the first plan of a scenario have one of these plots. */
export const withExtra = (random: SeededRandom, scenario: Scenario, kinds: FaultKinds): Scenario => {
  const drawn = random.int(0, 99)
  let before = 0
  const extra = extras.find(({ percent }) => drawn < (before += percent))
  const [first, ...others] = scenario.plans
  if (extra === undefined || first === undefined || !extra.needs.isSubsetOf(kinds)) return scenario
  const { faults, plan } = extra.draw(random, first, scenario.replicas)
  return { ...scenario, plans: [plan, ...others], faults: [...scenario.faults, ...faults] }
}
