import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { PlanBody, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Option, Predicate, Record, Schema } from "effect"
import * as UrlSecrets from "../egress/UrlSecrets.ts"
import { canonicalJson } from "./CanonicalJson.ts"
import { seal, type SealingKey, unseal } from "./Sealing.ts"

/** A request as it is kept with its plan: another process can resume the plan, and its caller can ask again. */
export interface StoredRequest {
  /** The request as it came, without its secrets. */
  readonly request: Schema.Json
  /** The encrypted secrets, until the plan is over; null if there are none, or if they cannot be kept. */
  readonly secrets: string | null
}

type Key = Option.Option<SealingKey>

/** The secrets by their place in the request: an agent's token by its index, everything else by its path. */
const Secrets = Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json))

const Fields = Schema.Record(Schema.String, Schema.Json)
const Named = Schema.StructWithRest(Schema.Struct({ auth: Schema.optionalKey(Fields) }), [Fields])
const Request = Schema.StructWithRest(
  Schema.Struct({
    agents: Schema.optionalKey(Schema.Array(Named)),
    mcp_servers: Schema.optionalKey(Schema.Array(Named))
  }),
  [Fields]
)
const decodeRequest = Schema.decodeUnknownSync(Request)

/** What the encrypted secrets are bound to, so that nobody gets the token of an agent by changing its endpoint in the store. */
const belonging = (planId: PlanId, request: Schema.Json): string => `${planId} ${canonicalJson(request)}`

type List = "agents" | "mcp_servers"
type Fields = typeof Fields.Type

const tokenPlace = {
  agents: (index: number) => `${index}`,
  mcp_servers: (index: number) => `mcp_servers.${index}.token`
}

/** Where else an agent or a server may have a secret: in a parameter of a URL. */
const urls = { agents: "endpoint", mcp_servers: "url" } as const

const urlPlace = (list: List, index: number, field: string) => `${list}.${index}.${field}`
const headersPlace = (index: number) => `mcp_servers.${index}.headers`

/** The request without its secrets, and those by their places. */
const withoutSecrets = (request: typeof Request.Type) => {
  const secrets = new Map<string, Schema.Json>()
  const withoutUrl = (fields: Fields, field: string, place: string): Fields => {
    const url = fields[field]
    const kept = typeof url === "string" ? UrlSecrets.without(url) : url
    if (url === undefined || kept === undefined || kept === url) return fields
    secrets.set(place, url)
    return { ...fields, [field]: kept }
  }
  const withoutAny =
    (list: List) =>
    (named: typeof Named.Type, index: number): typeof Named.Type => {
      const kept = withoutUrl(named, urls[list], urlPlace(list, index, urls[list]))
      const { auth, ...rest } = { ...kept, auth: named.auth }
      return auth === undefined ? rest : { ...rest, auth: withoutToken(auth, list, index) }
    }
  const withoutToken = (auth: Fields, list: List, index: number): Fields => {
    if (auth["type"] !== "bearer") return withoutUrl(auth, "token_url", urlPlace(list, index, "auth.token_url"))
    secrets.set(tokenPlace[list](index), auth["token"] ?? null)
    return { type: "bearer" }
  }
  const agents = request.agents?.map(withoutAny("agents"))
  const mcp_servers = request.mcp_servers?.map(withoutAny("mcp_servers")).map((server, index) => {
    const headers = server["headers"]
    if (headers === undefined) return server
    secrets.set(headersPlace(index), headers)
    // Not left out: without its headers the request must not decode.
    return { ...server, headers: null }
  })
  return { stored: { ...request, ...(agents && { agents }), ...(mcp_servers && { mcp_servers }) }, secrets }
}

/** A request as a caller would send it. */
export const written = Schema.encodeSync(PlanRequest)

/**
 * The request of a plan in the form that is stored: `sent` is the JSON that was decoded to a `PlanRequest`. The secrets, which are the tokens of `auth` of type `bearer`, the `headers` of MCP
 * servers, and URLs with parameters that are secrets, become the base64 of nonce, AES-256-GCM ciphertext and tag; they can be decrypted for this plan and this request only. Without
 * a key they are left out.
 */
export const store = (sent: unknown, planId: PlanId, key: Key): StoredRequest => {
  const { secrets, stored } = withoutSecrets(decodeRequest(sent))
  const sealWith = (key: SealingKey) =>
    seal(JSON.stringify(Object.fromEntries(secrets)), belonging(planId, stored), key)
  const sealed = secrets.size === 0 ? Option.none() : Option.map(key, sealWith)
  return { request: stored, secrets: Option.getOrNull(sealed) }
}

/** Whether the whole request can be kept, with its secrets. */
export const isWhole = (request: PlanRequest, key: Key): boolean =>
  Option.isSome(key) || withoutSecrets(decodeRequest(written(request))).secrets.size === 0

/** The request that was stored, without what the session keeps of it: its `history` and `prior_summary`. None if its secrets are missing, or were stored with another key or for another plan. */
export const restore = (stored: StoredRequest, planId: PlanId, key: Key): Option.Option<PlanRequest> =>
  Option.gen(function* () {
    const { request, secrets } = stored
    const open = (key: SealingKey) =>
      secrets === null ? Option.none() : unseal(secrets, belonging(planId, request), key)
    const text = secrets === null ? "{}" : yield* Option.flatMap(key, open)
    const found = new Map(Object.entries(yield* Schema.decodeOption(Secrets)(text)))
    const { history: _, prior_summary: __, ...kept } = yield* Schema.decodeUnknownOption(Request)(request)
    const withUrl = (fields: Fields, field: string, place: string): Fields => {
      const url = found.get(place) ?? fields[field]
      // Without its secret the URL would lead elsewhere: null does not decode.
      return typeof url === "string" ? { ...fields, [field]: UrlSecrets.lacks(url) ? null : url } : fields
    }
    const withAll = (list: List) => (named: typeof Named.Type, index: number) => {
      const token = found.get(tokenPlace[list](index))
      const auth = named.auth && withUrl(named.auth, "token_url", urlPlace(list, index, "auth.token_url"))
      return {
        ...withUrl(named, urls[list], urlPlace(list, index, urls[list])),
        ...(auth && { auth: token === undefined ? auth : { ...auth, token } })
      }
    }
    const agents = (kept.agents ?? []).map(withAll("agents"))
    const mcp_servers = (kept.mcp_servers ?? []).map(withAll("mcp_servers")).map((server, index) => {
      const headers = found.get(headersPlace(index))
      return headers === undefined ? server : { ...server, headers }
    })
    return yield* Schema.decodeUnknownOption(PlanRequest)({ ...kept, agents, mcp_servers })
  })

const isObject = (json: Schema.Json): json is Schema.JsonObject => Predicate.isObject(json)

/** A stored request as its caller may see it, and send it to `POST /plan` again when the secrets are back in it. */
export const shown = (request: Schema.Json | null): Plan["request"] =>
  request !== null && isObject(request)
    ? Record.filter(request, (_, field) => Object.hasOwn(PlanBody.fields, field))
    : null
