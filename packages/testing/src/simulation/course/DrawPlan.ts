import type { SeededRandom } from "../scenario/SeededRandom.ts"
import { peerTools } from "../world/Peers.ts"
import {
  type Budget,
  type CallerAct,
  type Fault,
  type Scenario,
  type ScenarioCall,
  type ScenarioPlan,
  type ScenarioStep,
  type UploadAct,
  uploadMs
} from "../scenario/Scenario.ts"
import { mcpTools } from "../world/Servers.ts"

/** What plans spend their time with: `quick` ones are over in a few seconds, others outlast the lease of a writer that is gone. */
type Pace = "quick" | "talks" | "works"

/** What all plans of a scenario share. */
export interface Frame {
  readonly replicas: number
  /** Whether callers do more than to ask and to read. */
  readonly hasActs: boolean
  /** Long questions make sessions that have to be compacted. */
  readonly isLong: boolean
  readonly isSlow: boolean
}

export const times = <A>(count: number, draw: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => draw(index))

const drawCall = (random: SeededRandom, key: string, pace: Pace): ScenarioCall => ({
  key,
  tool: random.pick(["work", "work", "work", "repeat", "repeat", "repeat", ...peerTools, ...mcpTools]),
  ms: pace === "works" ? random.int(2_000, 30_000) : random.chance(30) ? 0 : random.int(50, 2_000)
})

const drawSteps = (random: SeededRandom, name: string, pace: Pace): ReadonlyArray<ScenarioStep> => {
  const steps = pace === "quick" ? random.int(1, 4) : random.int(1, 2)
  return times(steps, (step) => ({
    words: pace === "talks" ? random.int(5, 30) : random.int(1, 6),
    pauseMs: pace === "talks" ? random.int(200, 1_200) : random.int(1, 120),
    calls:
      step === steps - 1 ? [] : times(random.int(1, 3), (call) => drawCall(random, `${name}/${step}.${call}`, pace))
  }))
}

/** How long a plan takes where nothing happens to it, in milliseconds. */
export const lengthOf = ({ steps }: ScenarioPlan): number =>
  steps.reduce(
    (sum, { calls, pauseMs, words }) => sum + 50 + words * pauseMs + Math.max(0, ...calls.map(({ ms }) => ms)),
    0
  )

const drawActs = (random: SeededRandom, replicas: number, length: number): ReadonlyArray<CallerAct> => {
  const at = random.int(0, Math.ceil(length * 1.2))
  const replica = random.int(0, replicas - 1)
  switch (random.pick(["leave", "comeBack", "cancel", "again", "leave and come back"])) {
    case "leave":
      return [{ _tag: "Leave", at }]
    case "comeBack":
      return [{ _tag: "ComeBack", at, replica, from: random.pick(["start", "last"]) }]
    case "cancel":
      return [{ _tag: "Cancel", at, replica }]
    case "again":
      return [{ _tag: "AskAgain", at: random.chance(30) ? 0 : at, replica }]
    default:
      return [
        { _tag: "Leave", at },
        { _tag: "ComeBack", at: at + random.int(1, 20_000), replica, from: random.pick(["start", "last"]) }
      ]
  }
}

/** Two callers may decide at once, and not alike. */
const drawDecisions = (random: SeededRandom, replicas: number): ReadonlyArray<CallerAct> =>
  times(random.int(2, 8), () => ({
    _tag: "Decide",
    at: random.int(200, 20_000),
    replica: random.int(0, replicas - 1),
    approves: random.chance(80)
  }))

/** A plan, and what its caller does. */
export const drawPlan = (
  random: SeededRandom,
  name: string,
  { hasActs, isLong, isSlow, replicas }: Frame,
  { pace = isSlow ? random.pick(["talks", "works", "quick"]) : "quick" }: { readonly pace?: Pace } = {}
): ScenarioPlan => {
  const isAsked = hasActs && random.chance(15)
  const plan: ScenarioPlan = {
    name,
    session: random.chance(50) ? "s0" : name.replace("p", "s"),
    at: random.int(0, 4_000),
    replica: random.int(0, replicas - 1),
    onDisconnect: random.chance(30) ? "cancel" : "continue",
    onBusy: random.pick(["queue", "queue", "queue", "queue", "reject", "interrupt"]),
    hasKey: random.chance(50),
    timeoutMs: random.chance(15) ? random.int(500, 8_000) : random.int(60_000, 240_000),
    readMs: random.chance(10) ? random.int(1, 400) : 0,
    ballast: isLong ? random.int(1_000, 6_000) : 0,
    steps: drawSteps(random, name, pace),
    ...(isAsked && { approval: "always" }),
    acts: isAsked ? drawDecisions(random, replicas) : []
  }
  const acts = hasActs && random.chance(35) ? drawActs(random, replicas, lengthOf(plan)) : []
  return { ...plan, acts: [...plan.acts, ...acts] }
}

/** What callers add while their plans work, and shortly behind their ends: in some scenarios. */
export const withTexts = (random: SeededRandom, scenario: Scenario): Scenario => {
  if (random.chance(75)) return scenario
  const plans = scenario.plans.map((plan) => {
    const texts = times(random.int(0, 4), (number): CallerAct => ({
      _tag: "Say",
      at: random.int(0, Math.ceil(lengthOf(plan) * 1.3) + 300),
      replica: random.int(0, scenario.replicas - 1),
      number,
      when: random.pick(["boundary", "boundary", "now"]),
      else: random.pick(["ask", "ask", "reject"])
    }))
    return { ...plan, acts: [...plan.acts, ...texts] }
  })
  return { ...scenario, plans }
}

/** Longer than an upload may be silent. */
const tooLateMs = 620_000

/**
 * In some scenarios callers send files: in one go, piece by piece, or so late that their upload is given up. Some are cut, and under others the process dies
 * that takes them.
 */
export const withUploads = (random: SeededRandom, scenario: Scenario, mayKill: boolean): Scenario => {
  if (random.chance(95)) return scenario
  const [first, ...others] = scenario.plans
  if (first === undefined) return scenario
  const uploads = times(random.int(1, 3), (number): UploadAct => {
    const pieces = random.int(1, 7)
    return {
      _tag: "Upload",
      at: random.int(0, 3_000),
      replica: random.int(0, scenario.replicas - 1),
      number,
      pieces,
      pauseMs: random.chance(25) ? 0 : random.int(1, 1_500),
      ...(random.chance(15) && { lateMs: tooLateMs }),
      ...(random.chance(40) && { cutAfter: random.int(0, pieces) })
    }
  })
  const killed = uploads.find(({ lateMs, pauseMs }) => pauseMs > 0 && lateMs === undefined)
  const kills: ReadonlyArray<Fault> =
    killed === undefined || !mayKill || random.chance(60)
      ? []
      : [
          {
            _tag: "Kill",
            at: first.at + killed.at + random.int(0, uploadMs(killed)),
            replica: killed.replica,
            tasks: random.int(0, 50),
            backMs: random.int(100, 20_000)
          }
        ]
  return {
    ...scenario,
    plans: [{ ...first, acts: [...first.acts, ...uploads] }, ...others],
    faults: [...scenario.faults, ...kills]
  }
}

/** A step whose calls only its caller can make, and what the caller gives them: sometimes too late, or twice. */
const withPages = (random: SeededRandom, plan: ScenarioPlan, replicas: number, waitMs: number): ScenarioPlan => {
  const calls = times(random.int(1, 2), (call) => ({ key: `${plan.name}/9.${call}`, tool: "page", ms: 0 }))
  const gifts = times(random.int(1, 4), (number): CallerAct => ({
    _tag: "Give",
    at: random.int(100, Math.ceil(waitMs * 1.2)),
    replica: random.int(0, replicas - 1),
    number
  }))
  const step = { words: random.int(1, 3), pauseMs: random.int(1, 120), calls }
  return { ...plan, steps: [step, ...plan.steps], acts: [...plan.acts, ...gifts] }
}

/**
 * In some scenarios plans wait for their callers, and are parked. How long a wait may take says the wall clock of the process where it begins: nobody
 * sets it there.
 */
export const withWaits = (random: SeededRandom, scenario: Scenario): Scenario => {
  if (random.chance(80)) return scenario
  const waitMs = random.int(2_000, 30_000)
  const plans = scenario.plans.map((plan) => {
    const waits = { ...plan, waitMs }
    return plan.only === undefined && random.chance(70) ? withPages(random, waits, scenario.replicas, waitMs) : waits
  })
  const faults = scenario.faults.filter(({ _tag }) => _tag !== "ClockStep")
  return { ...scenario, plans, faults, parkAfterMs: random.int(100, 3_000) }
}

/** In some of these scenarios peers ask, and callers answer. */
export const withQuestions = (random: SeededRandom, scenario: Scenario): Scenario => {
  if (scenario.parkAfterMs === undefined || random.chance(50)) return scenario
  const faults: Array<Fault> = []
  const plans = scenario.plans.map((plan): ScenarioPlan => {
    if (plan.only !== undefined || plan.waitMs === undefined || random.chance(40)) return plan
    const key = `${plan.name}/8.0`
    const rounds = random.int(1, 3)
    faults.push({ _tag: "Peer", key, does: { _tag: "Asks", rounds } })
    const call = { key, tool: random.pick(["one_ask", ...peerTools]), ms: random.int(0, 1_500) }
    const answers = times(random.int(1, rounds + 2), (number): CallerAct => ({
      _tag: "Give",
      at: random.int(100, Math.ceil((plan.waitMs ?? 0) * rounds)),
      replica: random.int(0, scenario.replicas - 1),
      number: 10 + number
    }))
    const step = { words: 1, pauseMs: random.int(1, 120), calls: [call] }
    return { ...plan, answers: true, steps: [step, ...plan.steps], acts: [...plan.acts, ...answers] }
  })
  return { ...scenario, plans, faults: [...scenario.faults, ...faults] }
}

/** A request of a plan with tools has about 1,000 tokens. */
const drawTokens = (random: SeededRandom): number => random.int(1_000, 3_500)

/** What a plan may use up: mostly what it likes. */
export const drawBudget = (random: SeededRandom): { readonly budget?: Budget } =>
  random.chance(75)
    ? {}
    : {
        budget: random.pick<Budget>([
          { max_steps: random.int(1, 3) },
          { max_tool_calls: random.int(0, 5) },
          { max_total_tokens: drawTokens(random) }
        ])
      }

/** What so many plans may use up together. */
export const drawDay = (random: SeededRandom, plans: number): Pick<Scenario, "day"> =>
  random.chance(92) ? {} : { day: { tokens: plans * drawTokens(random), tool_calls: random.int(0, 4 * plans) } }
