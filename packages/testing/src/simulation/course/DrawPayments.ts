import type { Array as Arrays } from "effect"
import { times } from "./DrawPlan.ts"
import type { SeededRandom } from "../scenario/SeededRandom.ts"
import type {
  CallerAct,
  Fault,
  PeerFault,
  McpFault,
  Scenario,
  ScenarioCall,
  ScenarioPlan
} from "../scenario/Scenario.ts"
import { payments } from "../world/Bank.ts"
import { peerPayments } from "../world/Peers.ts"
import { mcpPayments } from "../world/Servers.ts"
import { clientPayments } from "../world/Tools.ts"

/** What keeps the process that makes a payment from telling of it. */
const drawTrouble = (random: SeededRandom, place: { readonly at: number; readonly replica: number }): Fault => {
  const ms = random.int(500, 40_000)
  const kill = { _tag: "Kill" as const, ...place, tasks: random.int(0, 60), backMs: random.int(100, 20_000) }
  return random.pick<Fault>([
    kill,
    kill,
    kill,
    { _tag: "Pause", ...place, ms },
    { _tag: "Partition", ...place, ms },
    { _tag: "StoreSlow", ...place, ms, delayMs: random.int(100, 4_000) },
    { _tag: "AnswerLost", ...place, isApplied: random.chance(60) },
    { _tag: "NetworkReset", ...place },
    { _tag: "HalfOpen", ...place }
  ])
}

/** What makes it hard to say whether a payment was made. */
const drawDoubt = (random: SeededRandom, { key, ms, tool }: ScenarioCall, plan: ScenarioPlan): Fault | undefined => {
  if (random.chance(40)) return drawTrouble(random, { at: plan.at + random.int(50, ms + 500), replica: plan.replica })
  const late = { _tag: "Late" as const, ms: random.int(10, 20_000) }
  const broken = { _tag: "Break" as const, kind: random.pick<"cut" | "reset">(["cut", "reset"]) }
  const refused = { _tag: "Refuse" as const, status: random.pick([429, 500, 503]) }
  if (peerPayments.includes(tool)) {
    const does = random.pick<PeerFault>([
      { _tag: random.pick(["Silent", "Vanish", "Stuck", "IgnoreCancel", "Fail"]) },
      { _tag: "State", state: random.pick(["input-required", "rejected", "something-new"]) },
      { _tag: "Polls", kind: random.pick(["cut", "reset", "refuse"]), times: random.int(1, 4) },
      late,
      broken,
      refused
    ])
    return { _tag: "Peer", key, does }
  }
  if (!mcpPayments.includes(tool)) return undefined
  const does = random.pick<McpFault>([
    { _tag: random.pick(["Silent", "IgnoreCancel", "Fail", "Garbled"]) },
    late,
    broken,
    refused
  ])
  return { _tag: "Mcp", key, does }
}

/** The plan asks for the same once or twice more than it should, in one step or in two. */
const paying = (
  random: SeededRandom,
  plan: ScenarioPlan,
  tools: Arrays.NonEmptyReadonlyArray<string>,
  waitMs: number,
  replicas: number
): ScenarioPlan => {
  const steps = times(random.int(1, 3), (step) => ({
    words: random.int(1, 3),
    pauseMs: random.int(1, 300),
    calls: times(random.int(1, 2), (call): ScenarioCall => ({
      key: `${plan.name}/${7 + step}.${5 + call}`,
      tool: random.pick(tools),
      ms: random.chance(30) ? 0 : random.int(50, 6_000),
      order: random.chance(70) ? 1 : 2,
      ...(random.chance(50) && { isTurned: true as const })
    }))
  }))
  const looks = times(random.int(1, 5), (): CallerAct => ({
    _tag: "Decide",
    at: random.int(500, 2 * waitMs),
    replica: random.int(0, replicas - 1),
    approves: true
  }))
  return {
    ...plan,
    ...(random.chance(15) && { approval: "never" }),
    ...(random.chance(40) && { toolTimeoutMs: random.int(500, 4_000) }),
    waitMs: plan.waitMs ?? waitMs,
    steps: [...steps, ...plan.steps],
    acts: [...plan.acts, ...looks]
  }
}

/** The caller makes some of these payments itself: it may do so twice, and not say what has become of it. */
const payingItself = (
  random: SeededRandom,
  plan: ScenarioPlan,
  waitMs: number,
  replicas: number,
  tool: string
): ScenarioPlan => {
  const gifts = times(random.int(2, 6), (number): CallerAct => ({
    _tag: "Give",
    at: random.int(100, 2 * waitMs),
    replica: random.int(0, replicas - 1),
    number: 20 + number,
    ...(random.chance(40) && { becomes: random.pick(["refused", "lost", "lost"]) })
  }))
  const steps = plan.steps.map((step) => ({
    ...step,
    calls: step.calls.map((call) => (call.order !== undefined && random.chance(80) ? { ...call, tool } : call))
  }))
  return { ...plan, steps, acts: [...plan.acts, ...gifts] }
}

/**
 * In some scenarios plans pay, and several of them the same. How long somebody may take to look at the bank says the wall clock of the process:
 * nobody sets it there.
 */
export const withPayments = (random: SeededRandom, scenario: Scenario): Scenario => {
  if (random.chance(80)) return scenario
  const names = payments.map(({ name }) => name)
  const pick = () => random.pick(["pay", ...names, ...names, ...mcpPayments, ...mcpPayments, ...peerPayments])
  const tools: Arrays.NonEmptyReadonlyArray<string> = random.chance(50) ? [pick()] : [pick(), pick()]
  const waitMs = random.int(5_000, 30_000)
  const own = random.of("own")
  const ownTool = own.chance(30) ? own.pick(clientPayments) : undefined
  const payer = (plan: ScenarioPlan) => {
    const payer = paying(random, plan, tools, waitMs, scenario.replicas)
    return ownTool === undefined ? payer : payingItself(own, payer, waitMs, scenario.replicas, ownTool)
  }
  const plans = scenario.plans.map((plan) => (plan.only === undefined && random.chance(75) ? payer(plan) : plan))
  const [first] = plans
  // Somebody asks again.
  const again = first && {
    ...first,
    name: "p8",
    session: random.pick([first.session, "s8"]),
    replica: random.int(0, scenario.replicas - 1),
    at: first.at + random.int(0, 10_000),
    steps: first.steps.slice(-1),
    acts: []
  }
  const all = again === undefined || again.only !== undefined || random.chance(40) ? plans : [...plans, payer(again)]
  const doubts = all.flatMap((plan) =>
    plan.steps.flatMap(({ calls }) =>
      calls.flatMap((call) => (call.order === undefined || random.chance(60) ? [] : [drawDoubt(random, call, plan)]))
    )
  )
  const faults = scenario.faults.filter(({ _tag }) => _tag !== "ClockStep")
  return { ...scenario, plans: all, faults: [...faults, ...doubts.filter((doubt) => doubt !== undefined)] }
}
