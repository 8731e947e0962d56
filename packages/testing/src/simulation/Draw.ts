import { Draws } from "./Draws.ts"
import { peerTools } from "./Peers.ts"
import type {
  CallerAct,
  Fault,
  PeerFault,
  ProviderFault,
  Scenario,
  ScenarioCall,
  ScenarioPlan,
  ScenarioStep
} from "./Scenario.ts"

/** Which kinds of faults a scenario may have: all of them, unless they are named. */
export type FaultKind = "provider" | "network" | "store" | "process" | "callers" | "peers"
export type FaultKinds = ReadonlySet<FaultKind>

export const allFaults: FaultKinds = new Set(["provider", "network", "store", "process", "callers", "peers"])

const times = <A>(count: number, draw: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => draw(index))

const drawCall = (draws: Draws, key: string): ScenarioCall => ({
  key,
  tool: draws.pick(["work", "work", "repeat", "repeat", "work", ...peerTools]),
  ms: draws.chance(30) ? 0 : draws.int(50, draws.chance(10) ? 30_000 : 2_000)
})

const drawSteps = (draws: Draws, name: string): ReadonlyArray<ScenarioStep> => {
  const steps = draws.int(1, 4)
  return times(steps, (step) => ({
    words: draws.int(1, 6),
    pauseMs: draws.int(1, 120),
    calls: step === steps - 1 ? [] : times(draws.int(1, 3), (call) => drawCall(draws, `${name}/${step}.${call}`))
  }))
}

const drawActs = (draws: Draws, replicas: number): ReadonlyArray<CallerAct> => {
  const at = draws.int(0, 6_000)
  const replica = draws.int(0, replicas - 1)
  switch (draws.pick(["leave", "comeBack", "cancel", "again", "leave and come back"])) {
    case "leave":
      return [{ _tag: "Leave", at }]
    case "comeBack":
      return [{ _tag: "ComeBack", at, replica, from: draws.pick(["start", "last"]) }]
    case "cancel":
      return [{ _tag: "Cancel", at, replica }]
    case "again":
      return [{ _tag: "AskAgain", at, replica }]
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
    approves: draws.chance(75)
  }))

const drawPlan = (
  draws: Draws,
  index: number,
  { isLong, kinds, replicas }: { readonly isLong: boolean; readonly kinds: FaultKinds; readonly replicas: number }
): ScenarioPlan => {
  const name = `p${index}`
  const isAsked = kinds.has("callers") && draws.chance(15)
  return {
    name,
    session: draws.chance(50) ? "s0" : `s${index}`,
    at: draws.int(0, 4_000),
    replica: draws.int(0, replicas - 1),
    onDisconnect: draws.chance(30) ? "cancel" : "continue",
    onBusy: draws.pick(["queue", "queue", "queue", "queue", "reject", "interrupt"]),
    hasKey: draws.chance(50),
    timeoutMs: draws.chance(15) ? draws.int(500, 8_000) : draws.int(60_000, 240_000),
    readMs: draws.chance(10) ? draws.int(1, 400) : 0,
    ballast: isLong ? draws.int(1_000, 6_000) : 0,
    steps: drawSteps(draws, name),
    ...(isAsked && { approval: "always" }),
    acts: [
      ...(isAsked ? drawDecisions(draws, replicas) : []),
      ...(kinds.has("callers") && draws.chance(35) ? drawActs(draws, replicas) : [])
    ]
  }
}

const drawProviderFault = (draws: Draws): ProviderFault => {
  const words = draws.int(0, 4)
  return draws.pick<ProviderFault>([
    { _tag: "Refuse", status: draws.pick([429, 500, 503, 529, 408, 404, 401, 402, 400]) },
    { _tag: "Refuse", status: 429, retryAfterS: draws.int(1, 40) },
    { _tag: "Refuse", status: 429, code: "insufficient_quota" },
    { _tag: "ErrorChunk", words, type: draws.pick(["server_error", "overloaded_error"]) },
    { _tag: draws.pick(["Cut", "Reset"]), bytes: draws.int(0, 900) },
    { _tag: draws.pick(["Cut", "Reset"]), bytes: draws.int(0, 900) },
    { _tag: "Stall", words, ms: draws.int(1_000, 200_000) },
    { _tag: "SlowBytes", ms: draws.int(1, 50) },
    { _tag: draws.pick(["NoFinish", "Twice", "Corrupt", "Length"]) }
  ])
}

const drawPeerFault = (draws: Draws): PeerFault =>
  draws.pick<PeerFault>([
    { _tag: draws.pick(["Silent", "Vanish", "Stuck", "IgnoreCancel", "Fail"]) },
    { _tag: "Late", ms: draws.int(10, 40_000) },
    { _tag: "State", state: draws.pick(["input-required", "auth-required", "rejected", "something-new"]) },
    { _tag: "Refuse", status: draws.pick([401, 404, 429, 500, 503]) },
    { _tag: "Break", kind: draws.pick(["cut", "reset"]) }
  ])

const drawFault = (
  draws: Draws,
  kinds: FaultKinds,
  replicas: number,
  plans: ReadonlyArray<ScenarioPlan>
): Fault | undefined => {
  const at = draws.int(0, 12_000)
  const replica = draws.int(0, replicas - 1)
  const ms = draws.int(100, draws.chance(20) ? 60_000 : 8_000)
  const backMs = draws.chance(80) ? draws.int(100, 20_000) : undefined
  const kind = draws.pick<FaultKind>([
    "process",
    "process",
    "store",
    "store",
    "network",
    "provider",
    "provider",
    "peers"
  ])
  if (!kinds.has(kind)) return undefined
  switch (kind) {
    case "process":
      return draws.pick<Fault>([
        { _tag: "Kill", at, replica, tasks: draws.int(0, 200), backMs },
        { _tag: "Kill", at, replica, tasks: draws.int(0, 200), backMs },
        { _tag: "Drain", at, replica, backMs },
        { _tag: "Pause", at, replica, ms },
        { _tag: "ClockStep", at, replica, byMs: draws.int(-900_000, 900_000) }
      ])
    case "store":
      return draws.pick<Fault>([
        { _tag: "StoreSlow", at, replica, ms, delayMs: draws.int(10, 6_000) },
        { _tag: "AnswerLost", at, replica, isApplied: draws.chance(60) },
        { _tag: "AnswerLost", at, replica, isApplied: draws.chance(60) },
        { _tag: "StoreAway", at, ms },
        { _tag: "Partition", at, replica, ms },
        { _tag: "Notices", at, replica, ms, become: draws.pick(["lost", "late", "twice"]) }
      ])
    case "network":
      return draws.pick<Fault>([
        { _tag: "NetworkSlow", at, ms, delayMs: draws.int(1, 3_000) },
        { _tag: "NetworkReset", at, replica },
        { _tag: "HalfOpen", at, replica }
      ])
    case "peers": {
      const keys = plans.flatMap(({ steps }) =>
        steps.flatMap(({ calls }) => calls.flatMap(({ key, tool }) => (peerTools.includes(tool) ? [key] : [])))
      )
      const key = keys[draws.int(0, keys.length)]
      return key === undefined ? undefined : { _tag: "Peer", key, does: drawPeerFault(draws) }
    }
    default:
      return {
        _tag: "Provider",
        plan: `p${draws.int(0, plans.length - 1)}`,
        request: draws.int(0, 4),
        does: drawProviderFault(draws)
      }
  }
}

/** What a seed stands for. */
export const draw = (seed: number, kinds: FaultKinds = allFaults): Scenario => {
  const draws = new Draws(`scenario ${seed}`)
  const replicas = draws.int(1, 3)
  // Long questions make sessions that have to be compacted.
  const isLong = draws.chance(25)
  const plans = times(draws.int(1, 5), (index) => drawPlan(draws, index, { isLong, kinds, replicas }))
  const faults = times(draws.int(0, 6), () => drawFault(draws, kinds, replicas, plans))
  return { seed, replicas, plans, faults: faults.filter((fault) => fault !== undefined) }
}
