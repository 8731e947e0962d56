import type { Draws } from "./Draws.ts"
import { peerTools } from "./Peers.ts"
import type { Budget, CallerAct, Scenario, ScenarioCall, ScenarioPlan, ScenarioStep } from "./Scenario.ts"
import { mcpTools } from "./Servers.ts"

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

const drawCall = (draws: Draws, key: string, pace: Pace): ScenarioCall => ({
  key,
  tool: draws.pick(["work", "work", "work", "repeat", "repeat", "repeat", ...peerTools, ...mcpTools]),
  ms: pace === "works" ? draws.int(2_000, 30_000) : draws.chance(30) ? 0 : draws.int(50, 2_000)
})

const drawSteps = (draws: Draws, name: string, pace: Pace): ReadonlyArray<ScenarioStep> => {
  const steps = pace === "quick" ? draws.int(1, 4) : draws.int(1, 2)
  return times(steps, (step) => ({
    words: pace === "talks" ? draws.int(5, 30) : draws.int(1, 6),
    pauseMs: pace === "talks" ? draws.int(200, 1_200) : draws.int(1, 120),
    calls: step === steps - 1 ? [] : times(draws.int(1, 3), (call) => drawCall(draws, `${name}/${step}.${call}`, pace))
  }))
}

/** How long a plan takes where nothing happens to it, in milliseconds. */
export const lengthOf = ({ steps }: ScenarioPlan): number =>
  steps.reduce(
    (sum, { calls, pauseMs, words }) => sum + 50 + words * pauseMs + Math.max(0, ...calls.map(({ ms }) => ms)),
    0
  )

const drawActs = (draws: Draws, replicas: number, length: number): ReadonlyArray<CallerAct> => {
  const at = draws.int(0, Math.ceil(length * 1.2))
  const replica = draws.int(0, replicas - 1)
  switch (draws.pick(["leave", "comeBack", "cancel", "again", "leave and come back"])) {
    case "leave":
      return [{ _tag: "Leave", at }]
    case "comeBack":
      return [{ _tag: "ComeBack", at, replica, from: draws.pick(["start", "last"]) }]
    case "cancel":
      return [{ _tag: "Cancel", at, replica }]
    case "again":
      return [{ _tag: "AskAgain", at: draws.chance(30) ? 0 : at, replica }]
    default:
      return [
        { _tag: "Leave", at },
        { _tag: "ComeBack", at: at + draws.int(1, 20_000), replica, from: draws.pick(["start", "last"]) }
      ]
  }
}

/** Two callers may decide at once, and not alike. */
const drawDecisions = (draws: Draws, replicas: number): ReadonlyArray<CallerAct> =>
  times(draws.int(2, 8), () => ({
    _tag: "Decide",
    at: draws.int(200, 20_000),
    replica: draws.int(0, replicas - 1),
    approves: draws.chance(80)
  }))

/** A plan, and what its caller does. */
export const drawPlan = (
  draws: Draws,
  name: string,
  { hasActs, isLong, isSlow, replicas }: Frame,
  { pace = isSlow ? draws.pick(["talks", "works", "quick"]) : "quick" }: { readonly pace?: Pace } = {}
): ScenarioPlan => {
  const isAsked = hasActs && draws.chance(15)
  const plan: ScenarioPlan = {
    name,
    session: draws.chance(50) ? "s0" : name.replace("p", "s"),
    at: draws.int(0, 4_000),
    replica: draws.int(0, replicas - 1),
    onDisconnect: draws.chance(30) ? "cancel" : "continue",
    onBusy: draws.pick(["queue", "queue", "queue", "queue", "reject", "interrupt"]),
    hasKey: draws.chance(50),
    timeoutMs: draws.chance(15) ? draws.int(500, 8_000) : draws.int(60_000, 240_000),
    readMs: draws.chance(10) ? draws.int(1, 400) : 0,
    ballast: isLong ? draws.int(1_000, 6_000) : 0,
    steps: drawSteps(draws, name, pace),
    ...(isAsked && { approval: "always" }),
    acts: isAsked ? drawDecisions(draws, replicas) : []
  }
  const acts = hasActs && draws.chance(35) ? drawActs(draws, replicas, lengthOf(plan)) : []
  return { ...plan, acts: [...plan.acts, ...acts] }
}

/** A request of a plan with tools has about 1,000 tokens. */
const drawTokens = (draws: Draws): number => draws.int(1_000, 3_500)

/** What a plan may use up: mostly what it likes. */
export const drawBudget = (draws: Draws): { readonly budget?: Budget } =>
  draws.chance(75)
    ? {}
    : {
        budget: draws.pick<Budget>([
          { max_steps: draws.int(1, 3) },
          { max_tool_calls: draws.int(0, 5) },
          { max_total_tokens: drawTokens(draws) }
        ])
      }

/** What so many plans may use up together. */
export const drawDay = (draws: Draws, plans: number): Pick<Scenario, "day"> =>
  draws.chance(92) ? {} : { day: { tokens: plans * drawTokens(draws), tool_calls: draws.int(0, 4 * plans) } }
