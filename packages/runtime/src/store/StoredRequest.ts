import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Option, Schema } from "effect"
import { canonicalJson } from "./CanonicalJson.ts"
import { seal, type SealingKey, unseal } from "./Sealing.ts"

/** A request as it is kept until its plan is over, so that another process can resume the plan. */
export interface StoredRequest {
  /** The request as it came, without its secrets, and without its `history` and `prior_summary`, which the session keeps. */
  readonly request: Schema.Json
  /** The encrypted secrets; null if there are none, or if they cannot be kept. */
  readonly secrets: string | null
}

type Key = Option.Option<SealingKey>

/** The secrets by their place in the request: an agent's token by its index, those of MCP servers by their path. */
const Secrets = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json))

const Fields = Schema.Record(Schema.String, Schema.Unknown)
const Kept = Schema.StructWithRest(Schema.Struct({ auth: Schema.optionalKey(Fields) }), [Fields])
const KeptRequest = Schema.StructWithRest(
  Schema.Struct({ agents: Schema.Array(Kept), mcp_servers: Schema.optionalKey(Schema.Array(Kept)) }),
  [Fields]
)

/** What the encrypted secrets are bound to, so that nobody gets the token of an agent by changing its endpoint in the store. */
const belonging = (planId: PlanId, request: Schema.Json): string => `${planId} ${canonicalJson(request)}`

const tokenPlace = {
  agents: (index: number) => `${index}`,
  mcp_servers: (index: number) => `mcp_servers.${index}.token`
}
const headersPlace = (index: number) => `mcp_servers.${index}.headers`

type Encoded = typeof PlanRequest.Encoded
type EncodedAuth = NonNullable<Encoded["agents"]>[number]["auth"]

/** The request without its secrets, and those by their places. */
const withoutSecrets = (request: Encoded) => {
  const secrets = new Map<string, Schema.Json>()
  const withoutToken = <Named extends { readonly auth?: EncodedAuth }>(named: Named, place: string) => {
    if (named.auth?.type !== "bearer") return named
    secrets.set(place, named.auth.token)
    return { ...named, auth: { type: named.auth.type } }
  }
  const agents = (request.agents ?? []).map((agent, index) => withoutToken(agent, tokenPlace.agents(index)))
  const mcp_servers = (request.mcp_servers ?? []).map((server, index) => {
    const kept = withoutToken(server, tokenPlace.mcp_servers(index))
    if (server.headers === undefined) return kept
    secrets.set(headersPlace(index), server.headers)
    // Not left out: without its headers the request must not decode.
    return { ...kept, headers: null }
  })
  return { stored: { ...request, agents, mcp_servers }, secrets }
}

/**
 * The request of a plan in the form that is stored. The secrets, which are the tokens of `auth` of type `bearer` and the `headers` of MCP
 * servers, become the base64 of nonce, AES-256-GCM ciphertext and tag; they can be decrypted for this plan and this request only. Without
 * a key they are left out.
 */
export const store = (request: PlanRequest, planId: PlanId, key: Key): StoredRequest => {
  const { history: _, prior_summary: __, ...kept } = Schema.encodeSync(PlanRequest)({ ...request, history: [] })
  const { secrets, stored } = withoutSecrets(kept)
  const sealWith = (key: SealingKey) =>
    seal(JSON.stringify(Object.fromEntries(secrets)), belonging(planId, stored), key)
  const sealed = secrets.size === 0 ? Option.none() : Option.map(key, sealWith)
  return { request: stored, secrets: Option.getOrNull(sealed) }
}

/** Whether the whole request can be kept, with its secrets. */
export const isWhole = ({ agents, mcp_servers }: PlanRequest, key: Key): boolean =>
  Option.isSome(key) ||
  (agents.every(({ auth }) => auth.type !== "bearer") &&
    mcp_servers.every(({ auth, headers }) => auth.type !== "bearer" && headers === undefined))

/** The request that was stored. None if its secrets are missing, or were stored with another key or for another plan. */
export const restore = (stored: StoredRequest, planId: PlanId, key: Key): Option.Option<PlanRequest> =>
  Option.gen(function* () {
    const { request, secrets } = stored
    const open = (key: SealingKey) =>
      secrets === null ? Option.none() : unseal(secrets, belonging(planId, request), key)
    const text = secrets === null ? "{}" : yield* Option.flatMap(key, open)
    const found = new Map(Object.entries(yield* Schema.decodeOption(Secrets)(text)))
    const kept = yield* Schema.decodeUnknownOption(KeptRequest)(request)
    const withToken = (named: typeof Kept.Type, place: string) => {
      const token = found.get(place)
      return token === undefined ? named : { ...named, auth: { ...named.auth, token } }
    }
    const agents = kept.agents.map((agent, index) => withToken(agent, tokenPlace.agents(index)))
    const mcp_servers = (kept.mcp_servers ?? []).map((server, index) => {
      const headers = found.get(headersPlace(index))
      return { ...withToken(server, tokenPlace.mcp_servers(index)), ...(headers !== undefined && { headers }) }
    })
    return yield* Schema.decodeUnknownOption(PlanRequest)({ ...kept, agents, mcp_servers })
  })
