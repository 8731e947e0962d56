import { lengthOf, times } from "./DrawPlan.ts"
import type { SeededRandom } from "../scenario/SeededRandom.ts"
import { peerTools } from "../world/Peers.ts"
import type { Fault, McpFault, PeerFault, ProviderFault, ScenarioPlan } from "../scenario/Scenario.ts"
import { mcpTools } from "../world/Servers.ts"

/** Which kinds of faults a scenario may have: all of them, unless they are named. `peers` are MCP servers, too. */
export type FaultKind = "provider" | "network" | "store" | "process" | "callers" | "peers"
export type FaultKinds = ReadonlySet<FaultKind>

export const allFaults: FaultKinds = new Set(["provider", "network", "store", "process", "callers", "peers"])

/** About the prompt, about the key or its model, or about nothing that it says. */
const drawForbidden = (random: SeededRandom): ProviderFault => {
  const code = random.pick([undefined, undefined, "content_policy_violation", "key_revoked", "model_not_found"])
  return { _tag: "Refuse", status: 403, ...(code !== undefined && { code }) }
}

const drawProviderFault = (random: SeededRandom): ProviderFault => {
  const words = random.int(0, 4)
  return random.pick<ProviderFault>([
    { _tag: "Refuse", status: random.pick([429, 500, 503, 529, 408, 404, 401, 402, 400]) },
    { _tag: "Refuse", status: 429, retryAfterS: random.int(1, 40) },
    { _tag: "Refuse", status: 429, code: "insufficient_quota" },
    drawForbidden(random),
    { _tag: "EarlyUsage" },
    { _tag: "ErrorChunk", words, type: random.pick(["server_error", "overloaded_error"]) },
    { _tag: random.pick(["Cut", "Reset"]), bytes: random.int(0, 900) },
    { _tag: random.pick(["Cut", "Reset"]), bytes: random.int(0, 900) },
    { _tag: "Stall", words, ms: random.int(1_000, 200_000) },
    { _tag: "SlowBytes", ms: random.int(1, 50) },
    { _tag: random.pick(["NoFinish", "Twice", "Corrupt", "Disorder", "Length"]) }
  ])
}

const drawPeerFault = (random: SeededRandom): PeerFault =>
  random.pick<PeerFault>([
    { _tag: random.pick(["Silent", "Vanish", "Stuck", "IgnoreCancel", "Fail"]) },
    { _tag: "Late", ms: random.int(10, 40_000) },
    { _tag: "State", state: random.pick(["input-required", "auth-required", "rejected", "something-new"]) },
    { _tag: "Refuse", status: random.pick([401, 404, 429, 500, 503]) },
    { _tag: "Break", kind: random.pick(["cut", "reset"]) }
  ])

const drawMcpFault = (random: SeededRandom): McpFault =>
  random.pick<McpFault>([
    { _tag: random.pick(["Silent", "IgnoreCancel", "Fail", "Garbled"]) },
    { _tag: "Late", ms: random.int(10, 40_000) },
    { _tag: "Refuse", status: random.pick([401, 404, 429, 500, 503]) },
    { _tag: "Break", kind: random.pick(["cut", "reset"]) }
  ])

/** A call of a peer or of an MCP server, and what becomes of it. */
const drawCallFault = (random: SeededRandom, plans: ReadonlyArray<ScenarioPlan>): Fault | undefined => {
  const calls = plans.flatMap(({ steps }) => steps.flatMap((step) => step.calls))
  const remote = calls.filter(({ tool }) => peerTools.includes(tool) || mcpTools.includes(tool))
  const call = remote[random.int(0, remote.length)]
  if (call === undefined) return undefined
  const { key, tool } = call
  return mcpTools.includes(tool)
    ? { _tag: "Mcp", key, does: drawMcpFault(random) }
    : { _tag: "Peer", key, does: drawPeerFault(random) }
}

/** A place and a time: of a plan while it runs, or any. */
const drawTarget = (random: SeededRandom, replicas: number, plans: ReadonlyArray<ScenarioPlan>) => {
  const plan = random.chance(60) ? plans[random.int(0, plans.length - 1)] : undefined
  return plan === undefined
    ? { at: random.int(0, 12_000), replica: random.int(0, replicas - 1) }
    : { at: plan.at + random.int(0, lengthOf(plan)), replica: plan.replica }
}

/** Something that goes wrong with these plans, or nothing. */
export const drawFault = (
  random: SeededRandom,
  kinds: FaultKinds,
  replicas: number,
  plans: ReadonlyArray<ScenarioPlan>
): Fault | undefined => {
  const { at, replica } = drawTarget(random, replicas, plans)
  const ms = random.chance(20) ? random.int(8_000, 60_000) : random.int(100, 8_000)
  const backMs = random.chance(80) ? random.int(100, 20_000) : undefined
  const kind = random.pick<FaultKind>([
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
      return random.pick<Fault>([
        { _tag: "Kill", at, replica, tasks: random.int(0, 200), backMs },
        { _tag: "Kill", at, replica, tasks: random.int(0, 200), backMs },
        { _tag: "Drain", at, replica, backMs },
        { _tag: "Pause", at, replica, ms },
        { _tag: "ClockStep", at, replica, byMs: random.int(-900_000, 900_000) }
      ])
    case "store":
      return random.pick<Fault>([
        { _tag: "StoreSlow", at, replica, ms, delayMs: random.int(10, 6_000) },
        { _tag: "AnswerLost", at, replica, isApplied: random.chance(60) },
        { _tag: "AnswerLost", at, replica, isApplied: random.chance(60) },
        { _tag: "StoreAway", at, ms },
        { _tag: "Partition", at, replica, ms },
        { _tag: "Notices", at, replica, ms, become: random.pick(["lost", "late", "twice"]) }
      ])
    case "network":
      return random.pick<Fault>([
        { _tag: "NetworkSlow", at, ms, delayMs: random.int(1, 3_000) },
        { _tag: "NetworkReset", at, replica },
        { _tag: "HalfOpen", at, replica }
      ])
    case "peers":
      return random.pick<() => Fault | undefined>([
        () => drawCallFault(random, plans),
        () => drawCallFault(random, plans),
        () => drawCallFault(random, plans),
        () => ({ _tag: "Card", at, ms, becomes: random.pick(["other dialect", "missing", "garbled", "late"]) }),
        () => ({ _tag: "McpServer", at, ms, does: random.pick(["forgets", "changes its tools", "silent"]) })
      ])()
    default: {
      const retryAfterS = random.chance(50) ? random.int(1, 20) : undefined
      return random.pick<() => Fault>([
        () => ({ _tag: "Expire", at, ms, credential: random.pick(["openai-1", "openai-2", "anthropic-1"]) }),
        () => ({ _tag: "Storm", at, ms, provider: random.pick(["openai", "openai", "anthropic"]), retryAfterS }),
        ...times(4, () => () => ({
          _tag: "Provider" as const,
          plan: `p${random.int(0, plans.length - 1)}`,
          request: random.int(0, 4),
          does: drawProviderFault(random)
        }))
      ])()
    }
  }
}
