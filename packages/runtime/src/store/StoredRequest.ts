import { ForkedFrom, type Plan, type PlanId } from "@bowline/domain/plan/Plan"
import { Asker } from "@bowline/domain/unstable/caller/IssuedKey"
import { HistoryEntry, PlanBody, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { QuestionPart } from "@bowline/domain/unstable/file/QuestionPart"
import { Option, Predicate, Record, Result, Schema, Struct } from "effect"
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
    mcp_servers: Schema.optionalKey(Schema.Array(Named)),
    webhooks: Schema.optionalKey(Schema.Array(Fields))
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

const toPath = (place: string): ReadonlyArray<string | number> =>
  place.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part))

/** The paths of the fields in which a request has secrets. */
export const secretPlaces = (sent: unknown): ReadonlyArray<ReadonlyArray<string | number>> => {
  const request = decodeRequest(sent)
  const places = Array.from(withoutSecrets(request).secrets.keys(), (place) =>
    toPath((/^\d+$/.test(place) ? `agents.${place}.token` : place).replace(/\.token$/, ".auth.token"))
  )
  const ofWebhooks = (request.webhooks ?? []).flatMap((webhook, index) =>
    ["secret", "headers"].filter((field) => Object.hasOwn(webhook, field)).map((field) => ["webhooks", index, field])
  )
  return [...places, ...ofWebhooks]
}

/** A former version resumes no plan whose request has no list of agents. A request that came without one says so, for its caller. */
const withAgents = (request: typeof Request.Type) =>
  request.agents === undefined ? { ...request, agents: [], came_without_agents: true } : request

/** The webhooks have their own rows, with their secrets: no process needs them here. */
const withoutWebhookSecrets = ({ webhooks, ...request }: typeof Request.Type): typeof Request.Type =>
  webhooks === undefined
    ? request
    : { ...request, webhooks: webhooks.map((one) => Struct.omit(one, ["secret", "headers"])) }

/** A former version does not know it. A plan that was created had nobody to say it to: it waits like any other. */
const withoutSteering = (request: typeof Request.Type) => {
  const preferences = Schema.decodeUnknownOption(Fields)(request["preferences"])
  return Option.match(preferences, {
    onNone: () => request,
    onSome: (given) =>
      given["on_busy"] === "steer" ? { ...request, preferences: { ...given, on_busy: "queue" } } : request
  })
}

/** A version that knows no forks must not make their calls: without legs as they have to be it cannot read the request. */
const guarded = (request: typeof Request.Type) => {
  const fork = Schema.decodeUnknownOption(Fields)(request["fork"])
  return Option.isSome(fork) && fork.value["tools"] !== "live" ? { ...request, legs: null } : request
}
const unguarded = ({ legs, ...request }: typeof Request.Type): typeof Request.Type =>
  legs === undefined || legs === null ? request : { ...request, legs }

/** A request as a caller would send it. */
export const written = Schema.encodeSync(PlanRequest)

/**
 * The request of a plan in the form that is stored: `sent` is the JSON that was decoded to a `PlanRequest`. The secrets, which are the tokens of `auth` of type `bearer`, the `headers` of MCP
 * servers, and URLs with parameters that are secrets, become the base64 of nonce, AES-256-GCM ciphertext and tag; they can be decrypted for this plan and this request only. Without
 * a key they are left out.
 */
export const store = (sent: unknown, planId: PlanId, key: Key): StoredRequest => {
  const { secrets, stored } = withoutSecrets(
    guarded(withoutWebhookSecrets(withoutSteering(withAgents(decodeRequest(sent)))))
  )
  const sealWith = (key: SealingKey) =>
    seal(JSON.stringify(Object.fromEntries(secrets)), belonging(planId, stored), key)
  const sealed = secrets.size === 0 ? Option.none() : Option.map(key, sealWith)
  return { request: stored, secrets: Option.getOrNull(sealed) }
}

/** Whether the whole request can be kept, with its secrets. */
export const isWhole = (request: PlanRequest, key: Key): boolean =>
  Option.isSome(key) || withoutSecrets(decodeRequest(written(request))).secrets.size === 0

/** Why a stored request is of no use: a secret of it is not stored, this process has another key, or another version has written it. */
export type Lack = "secret" | "key" | "shape"

/** The texts that a plan could not take are one question of its next plan, and may be longer together than a caller's. */
const decodeStored = Schema.decodeUnknownOption(PlanRequest.mapFields(Struct.assign({ question: Schema.String })))

/** The request that was stored, without what the session keeps of it: its `history` and `prior_summary`. */
export const restore = (stored: StoredRequest, planId: PlanId, key: Key): Result.Result<PlanRequest, Lack> =>
  Result.gen(function* () {
    const { request, secrets } = stored
    const open = (key: SealingKey) =>
      secrets === null ? Option.none() : unseal(secrets, belonging(planId, request), key)
    const text = secrets === null ? "{}" : yield* Result.fromOption(Option.flatMap(key, open), (): Lack => "key")
    const opened = Schema.decodeOption(Secrets)(text)
    const found = new Map(Object.entries(yield* Result.fromOption(opened, (): Lack => "shape")))
    const decoded = Schema.decodeUnknownOption(Request)(request)
    const {
      history: _,
      prior_summary: __,
      webhooks: ___,
      ...kept
    } = unguarded(yield* Result.fromOption(decoded, (): Lack => "shape"))
    let lack: Lack = "shape"
    const withUrl = (fields: Fields, field: string, place: string): Fields => {
      const url = found.get(place) ?? fields[field]
      if (typeof url !== "string") return fields
      // Without its secret the URL would lead elsewhere: null does not decode.
      if (!UrlSecrets.lacks(url)) return { ...fields, [field]: url }
      lack = "secret"
      return { ...fields, [field]: null }
    }
    const withToken = (auth: Fields, list: List, index: number): Fields => {
      const token = found.get(tokenPlace[list](index))
      if (token !== undefined) return { ...auth, token }
      if (auth["type"] === "bearer") lack = "secret"
      return auth
    }
    const withAll =
      (list: List) =>
      (named: typeof Named.Type, index: number): Fields => ({
        ...withUrl(named, urls[list], urlPlace(list, index, urls[list])),
        ...(named.auth && {
          auth: withToken(withUrl(named.auth, "token_url", urlPlace(list, index, "auth.token_url")), list, index)
        })
      })
    const agents = (kept.agents ?? []).map(withAll("agents"))
    const mcp_servers = (kept.mcp_servers ?? []).map(withAll("mcp_servers")).map((server, index) => {
      const headers = found.get(headersPlace(index))
      if (headers !== undefined) return { ...server, headers }
      if (server["headers"] === null) lack = "secret"
      return server
    })
    const whole = decodeStored({ ...kept, agents, mcp_servers })
    return yield* Result.fromOption(whole, () => lack)
  })

/** The request that was stored, for whoever connects to none of its agents and servers: their secrets are gone, and are not needed. */
export const restoreOffline = (request: Schema.Json): Option.Option<PlanRequest> =>
  Option.flatMap(Schema.decodeUnknownOption(Request)(request), ({ agents = [], mcp_servers = [], ...rest }) => {
    const { history: _, prior_summary: __, webhooks: ___, ...kept } = unguarded(rest)
    const offline = (named: typeof Named.Type) => ({ ...Struct.omit(named, ["headers"]), auth: { type: "none" } })
    return decodeStored({ ...kept, agents: agents.map(offline), mcp_servers: mcp_servers.map(offline) })
  })

const isObject = (json: Schema.Json): json is Schema.JsonObject => Predicate.isObject(json)

const decodeParts = Schema.decodeUnknownOption(Schema.Array(QuestionPart))
const decodeHistory = Schema.decodeUnknownOption(Schema.Array(HistoryEntry))

/** The question as it was asked, with files by their ids, and earlier messages as texts. */
const withGivenParts = (request: Schema.JsonObject): Schema.JsonObject => {
  const parts = Option.getOrUndefined(decodeParts(request["question_parts"]))
  const question = parts?.map((part) => (part.type === "text" ? part : { type: part.type, file_id: part.file_id }))
  const history = Option.getOrUndefined(decodeHistory(request["history"]))
  return Object.assign({}, request, question && { question }, history && { history })
}

const decodeFork = Schema.decodeUnknownOption(ForkedFrom)

/** A stored request as its caller may see it, and send it to `POST /plan` again when the secrets are back in it. */
export const shown = (request: Schema.Json | null): Plan["request"] =>
  request !== null && isObject(request)
    ? Record.filter(
        withGivenParts(request),
        (_, field) =>
          Object.hasOwn(PlanBody.fields, field) && !(field === "agents" && request["came_without_agents"] === true)
      )
    : null

/** What a whole plan shows of its stored request. */
export const shownIn = (request: Schema.Json | null): Pick<Plan, "forked_from" | "request"> => {
  const fork = Option.flatMap(Schema.decodeUnknownOption(Fields)(request), (fields) => decodeFork(fields["fork"]))
  return {
    request: shown(request),
    ...Option.match(fork, { onNone: () => ({}), onSome: (forked_from) => ({ forked_from }) })
  }
}

const decodeAsker = Schema.decodeUnknownOption(Schema.Struct({ asker: Asker }))

/** The groups of whoever asked, as they were then. */
export const groupsOf = (stored: StoredRequest | null): ReadonlyArray<string> =>
  Option.match(decodeAsker(stored?.request), { onNone: () => [], onSome: ({ asker: { groups = [] } }) => groups })
