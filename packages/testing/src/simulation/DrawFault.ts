import { lengthOf, times } from "./DrawPlan.ts"
import type { Draws } from "./Draws.ts"
import { peerTools } from "./Peers.ts"
import type { Fault, McpFault, PeerFault, ProviderFault, ScenarioPlan } from "./Scenario.ts"
import { mcpTools } from "./Servers.ts"

/** Which kinds of faults a scenario may have: all of them, unless they are named. `peers` are MCP servers, too. */
export type FaultKind = "provider" | "network" | "store" | "process" | "callers" | "peers"
export type FaultKinds = ReadonlySet<FaultKind>

export const allFaults: FaultKinds = new Set(["provider", "network", "store", "process", "callers", "peers"])

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
    { _tag: draws.pick(["NoFinish", "Twice", "Corrupt", "Disorder", "Length"]) }
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

const drawMcpFault = (draws: Draws): McpFault =>
  draws.pick<McpFault>([
    { _tag: draws.pick(["Silent", "IgnoreCancel", "Fail", "Garbled"]) },
    { _tag: "Late", ms: draws.int(10, 40_000) },
    { _tag: "Refuse", status: draws.pick([401, 404, 429, 500, 503]) },
    { _tag: "Break", kind: draws.pick(["cut", "reset"]) }
  ])

/** A call of a peer or of an MCP server, and what becomes of it. */
const drawCallFault = (draws: Draws, plans: ReadonlyArray<ScenarioPlan>): Fault | undefined => {
  const calls = plans.flatMap(({ steps }) => steps.flatMap((step) => step.calls))
  const remote = calls.filter(({ tool }) => peerTools.includes(tool) || mcpTools.includes(tool))
  const call = remote[draws.int(0, remote.length)]
  if (call === undefined) return undefined
  const { key, tool } = call
  return mcpTools.includes(tool)
    ? { _tag: "Mcp", key, does: drawMcpFault(draws) }
    : { _tag: "Peer", key, does: drawPeerFault(draws) }
}

/** A place and a time: of a plan while it runs, or any. */
const drawTarget = (draws: Draws, replicas: number, plans: ReadonlyArray<ScenarioPlan>) => {
  const plan = draws.chance(60) ? plans[draws.int(0, plans.length - 1)] : undefined
  return plan === undefined
    ? { at: draws.int(0, 12_000), replica: draws.int(0, replicas - 1) }
    : { at: plan.at + draws.int(0, lengthOf(plan)), replica: plan.replica }
}

/** Something that goes wrong with these plans, or nothing. */
export const drawFault = (
  draws: Draws,
  kinds: FaultKinds,
  replicas: number,
  plans: ReadonlyArray<ScenarioPlan>
): Fault | undefined => {
  const { at, replica } = drawTarget(draws, replicas, plans)
  const ms = draws.chance(20) ? draws.int(8_000, 60_000) : draws.int(100, 8_000)
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
    case "peers":
      return draws.pick<() => Fault | undefined>([
        () => drawCallFault(draws, plans),
        () => drawCallFault(draws, plans),
        () => drawCallFault(draws, plans),
        () => ({ _tag: "Card", at, ms, becomes: draws.pick(["other dialect", "missing", "garbled", "late"]) }),
        () => ({ _tag: "McpServer", at, ms, does: draws.pick(["forgets", "changes its tools", "silent"]) })
      ])()
    default: {
      const retryAfterS = draws.chance(50) ? draws.int(1, 20) : undefined
      return draws.pick<() => Fault>([
        () => ({ _tag: "Expire", at, ms, credential: draws.pick(["openai-1", "openai-2", "anthropic-1"]) }),
        () => ({ _tag: "Storm", at, ms, provider: draws.pick(["openai", "openai", "anthropic"]), retryAfterS }),
        ...times(4, () => () => ({
          _tag: "Provider" as const,
          plan: `p${draws.int(0, plans.length - 1)}`,
          request: draws.int(0, 4),
          does: drawProviderFault(draws)
        }))
      ])()
    }
  }
}
