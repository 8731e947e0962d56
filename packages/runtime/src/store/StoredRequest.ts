import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Option, Redacted, Schema } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { canonicalJson } from "./CanonicalJson.ts"

/** What of a request is kept until its plan is over, so that the next process can go on with it. */
export interface StoredRequest {
  /** The request as it came, without its `history` and its `prior_summary`, which the session keeps, and without its secrets. */
  readonly request: Schema.Json
  /** The secrets, encrypted; none if there are none, or if they may not be kept. */
  readonly secrets: string | null
}

type Key = Option.Option<Redacted.Redacted<Uint8Array>>

const algorithm = "aes-256-gcm"
const nonceBytes = 12
const tagBytes = 16

/** The secrets by their place in the request: an agent's token by its index, those of MCP servers by their path. */
const Secrets = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json))

const Fields = Schema.Record(Schema.String, Schema.Unknown)
const Kept = Schema.StructWithRest(Schema.Struct({ auth: Schema.optionalKey(Fields) }), [Fields])
const KeptRequest = Schema.StructWithRest(
  Schema.Struct({ agents: Schema.Array(Kept), mcp_servers: Schema.optionalKey(Schema.Array(Kept)) }),
  [Fields]
)

/** What the secrets belong to: whoever changes an endpoint in the store must not get the token of another one. */
const belonging = (planId: PlanId, request: Schema.Json): Buffer => Buffer.from(`${planId} ${canonicalJson(request)}`)

const encrypt = (text: string, aad: Buffer, key: Redacted.Redacted<Uint8Array>): string => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, Redacted.value(key), nonce, { authTagLength: tagBytes })
  cipher.setAAD(aad)
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]).toString("base64")
}

const decrypt = Option.liftThrowable((secrets: string, aad: Buffer, key: Redacted.Redacted<Uint8Array>): string => {
  const bytes = Buffer.from(secrets, "base64")
  const decipher = createDecipheriv(algorithm, Redacted.value(key), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes
  })
  decipher.setAAD(aad)
  decipher.setAuthTag(bytes.subarray(-tagBytes))
  return decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8")
})

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
 * What is kept of the request of a plan: as JSON, and its secrets (the tokens of `auth` of type `bearer`, and the `headers` of MCP servers)
 * in base64 of the nonce, the AES-256-GCM ciphertext and its tag, for this plan and this request only. Without a key the secrets are left out.
 */
export const store = (request: PlanRequest, planId: PlanId, key: Key): StoredRequest => {
  const { history: _, prior_summary: __, ...kept } = Schema.encodeSync(PlanRequest)({ ...request, history: [] })
  const { secrets, stored } = withoutSecrets(kept)
  const seal = (key: Redacted.Redacted<Uint8Array>) =>
    encrypt(JSON.stringify(Object.fromEntries(secrets)), belonging(planId, stored), key)
  const sealed = secrets.size === 0 ? Option.none() : Option.map(key, seal)
  return { request: stored, secrets: Option.getOrNull(sealed) }
}

/** Whether all of a request can be kept. */
export const isWhole = ({ agents, mcp_servers }: PlanRequest, key: Key): boolean =>
  Option.isSome(key) ||
  (agents.every(({ auth }) => auth.type !== "bearer") &&
    mcp_servers.every(({ auth, headers }) => auth.type !== "bearer" && headers === undefined))

/** The request that was stored, if all of its secrets were, with this key and for this plan. */
export const restore = (stored: StoredRequest, planId: PlanId, key: Key): Option.Option<PlanRequest> =>
  Option.gen(function* () {
    const { request, secrets } = stored
    const open = (key: Redacted.Redacted<Uint8Array>) =>
      secrets === null ? Option.none() : decrypt(secrets, belonging(planId, request), key)
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
