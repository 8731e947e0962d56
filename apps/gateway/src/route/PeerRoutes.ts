import { NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { OnBehalfOf } from "@bowline/runtime/unstable/auth/CallerTokens"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { McpServer, Peer } from "@bowline/protocol/unstable/peer/PeersApi"
import { Plans } from "@bowline/runtime/plan/Plans"
import { McpClient, type McpServerStatus } from "@bowline/runtime/remote/McpClient"
import { PeerClient, type PeerStatus } from "@bowline/runtime/remote/PeerClient"
import { defaultPreset, type Preset, toolsOf } from "@bowline/runtime/unstable/config/Presets"
import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import { ConfiguredServers } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import { type CallsOf, OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { Array, Clock, Duration, Effect, Result } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { onlyAdmins } from "../http/BearerAuthorization.ts"
import { answer } from "../http/Refusals.ts"

const day = Duration.toMillis("1 day")
const listLimit = "10 seconds"

type Configured = Peer["configured"][number]

const noCalls: Peer["calls"] = { calls: 0, failures: 0, duration_ms: null, last_error: null }

/** A URL as statuses have it: parameters may be secrets. */
const addressOf = (address: string): string => {
  if (address.startsWith("stdio:")) return address
  const { origin, pathname } = new URL(address)
  return `${origin}${pathname}`
}

const byPlace = (places: ReadonlyArray<readonly [place: string, configured: Configured]>) =>
  new Map(
    Object.entries(Array.groupBy(places, ([place]) => place)).map(([place, all]) => [place, all.map(([, one]) => one)])
  )

const agentsIn = (presets: ReadonlyArray<Preset>) =>
  byPlace(
    presets.flatMap(({ agents, name: preset }) =>
      agents.map(({ endpoint, name }) => [UrlSecrets.without(endpoint), { preset, name }] as const)
    )
  )

const serversIn = (presets: ReadonlyArray<Preset>) =>
  byPlace(
    presets.flatMap(({ name: preset, servers }) =>
      servers.map(({ address, terms: { name } }) => [addressOf(address), { preset, name }] as const)
    )
  )

const callsIn = (kind: CallsOf["kind"], all: ReadonlyArray<CallsOf>) =>
  new Map(all.flatMap(({ called, kind: own, ...calls }) => (own === kind ? [[called, calls] as const] : [])))

/** Those that this process has called, those that others have called within the day, and those that are configured. */
const peersOf = (
  statuses: ReadonlyArray<PeerStatus>,
  presets: ReadonlyArray<Preset>,
  all: ReadonlyArray<CallsOf>
): ReadonlyArray<Peer> => {
  const known = new Map(statuses.map((status) => [status.endpoint, status]))
  const configured = agentsIn(presets)
  const calls = callsIn("peer", all)
  return Array.fromIterable(new Set([...known.keys(), ...configured.keys(), ...calls.keys()])).map((endpoint) => {
    const { breaker, card, dialect } = known.get(endpoint) ?? { breaker: undefined, card: null, dialect: null }
    return {
      endpoint,
      dialect,
      card: card === null ? null : { name: card.name, fetched_at: fromMillis(card.fetchedAt) },
      breaker: {
        state: breaker?.state ?? "closed",
        open_until: breaker?.openUntil == null ? null : fromMillis(breaker.openUntil)
      },
      configured: configured.get(endpoint) ?? [],
      calls: calls.get(endpoint) ?? noCalls
    }
  })
}

/** Calls of MCP servers are stored by the name that a plan had for the server: only of a configured one it is known which that is. */
const serversOf = (
  statuses: ReadonlyArray<McpServerStatus>,
  presets: ReadonlyArray<Preset>,
  all: ReadonlyArray<CallsOf>
): ReadonlyArray<McpServer> => {
  const known = new Map(statuses.map((status) => [status.url, status]))
  const configured = serversIn(presets)
  const calls = callsIn("mcp", all)
  return Array.fromIterable(new Set([...known.keys(), ...configured.keys()])).map((url) => {
    const names = configured.get(url) ?? []
    const ofName = names.map(({ name }) => calls.get(name)).find((found) => found !== undefined)
    const unknown = { url, revision: null, error: null, error_at: null }
    return { ...(known.get(url) ?? unknown), configured: names, calls: ofName ?? noCalls }
  })
}

/** Shows admins the peers and the MCP servers, and what can be called of them. */
export const layer = HttpApiBuilder.group(
  Api,
  "peers",
  Effect.fnUntraced(function* (handlers) {
    const client = yield* PeerClient
    const mcp = yield* McpClient
    const plans = yield* Plans
    const overview = yield* OverviewStore
    const configured = yield* ConfiguredServers
    const admitted = yield* onlyAdmins
    const presets = Effect.flatMap(Caller, plans.presets)

    const list = Effect.gen(function* () {
      yield* admitted
      const now = yield* Clock.currentTimeMillis
      const calls = yield* overview.peers({ since: fromMillis(now - day), until: fromMillis(now + 1) })
      const [peers, own, others, all] = yield* Effect.all([client.peers, configured.statuses, mcp.servers, presets])
      return { peers: peersOf(peers, all, calls), mcp_servers: serversOf([...others, ...own], all, calls) }
    })

    const tools = Effect.fnUntraced(function* (preset: string, name: string) {
      yield* admitted
      const found = (yield* presets).find((one) => one.name === preset)
      const asked = found === undefined ? undefined : toolsOf(found, name, client)
      if (asked === undefined) return yield* new NotFound({ what: "peer" })
      const told = yield* Effect.timeoutOption(asked, listLimit).pipe(
        Effect.provideService(OnBehalfOf, yield* Caller),
        Effect.result
      )
      if (Result.isFailure(told)) return { tools: [], error: told.failure.message }
      if (told.success._tag === "None") return { tools: [], error: "It has not told its tools within 10 s" }
      return {
        tools: told.success.value.map(({ description, inputSchema, name: tool, skill }) => ({
          tool,
          skill,
          description,
          input_schema: inputSchema
        })),
        error: null
      }
    })

    return handlers.handleAll({
      list: () => answer(list),
      tools: ({ query: { name, preset = defaultPreset } }) => answer(tools(preset, name))
    })
  })
)
