import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Option, Redacted, Schema } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { canonicalJson } from "./CanonicalJson.ts"

/** A request as it is kept until its plan is over, so that another process can resume the plan. */
export interface StoredRequest {
  /** The request as it came, without its secrets, and without its `history` and `prior_summary`, which the session keeps. */
  readonly request: Schema.Json
  /** The encrypted secrets; null if there are none, or if they cannot be kept. */
  readonly secrets: string | null
}

type Key = Option.Option<Redacted.Redacted<Uint8Array>>

const algorithm = "aes-256-gcm"
const nonceBytes = 12
const tagBytes = 16

/** The inline tokens, by the place of their agent in the request. */
const Tokens = Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))

const Fields = Schema.Record(Schema.String, Schema.Unknown)
const KeptAgent = Schema.StructWithRest(Schema.Struct({ auth: Fields }), [Fields])
const KeptRequest = Schema.StructWithRest(Schema.Struct({ agents: Schema.Array(KeptAgent) }), [Fields])

/** What the encrypted secrets are bound to, so that nobody gets the token of an agent by changing its endpoint in the store. */
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

/**
 * The request of a plan in the form that is stored. The secrets, which are the tokens of `agents[].auth` of type `bearer`, become the
 * base64 of nonce, AES-256-GCM ciphertext and tag; they can be decrypted for this plan and this request only. Without a key they are
 * left out.
 */
export const store = (request: PlanRequest, planId: PlanId, key: Key): StoredRequest => {
  const { history: _, prior_summary: __, ...kept } = Schema.encodeSync(PlanRequest)({ ...request, history: [] })
  const tokens = new Map<string, string>()
  const agents = (kept.agents ?? []).map((agent, index) => {
    if (agent.auth?.type !== "bearer") return agent
    tokens.set(`${index}`, agent.auth.token)
    return { ...agent, auth: { type: agent.auth.type } }
  })
  const stored = { ...kept, agents }
  const seal = (key: Redacted.Redacted<Uint8Array>) =>
    encrypt(JSON.stringify(Object.fromEntries(tokens)), belonging(planId, stored), key)
  const secrets = tokens.size === 0 ? Option.none() : Option.map(key, seal)
  return { request: stored, secrets: Option.getOrNull(secrets) }
}

/** Whether the whole request can be kept, with its secrets. */
export const isWhole = ({ agents }: PlanRequest, key: Key): boolean =>
  Option.isSome(key) || agents.every(({ auth }) => auth.type !== "bearer")

/** The request that was stored. None if its secrets are missing, or were stored with another key or for another plan. */
export const restore = (stored: StoredRequest, planId: PlanId, key: Key): Option.Option<PlanRequest> =>
  Option.gen(function* () {
    const { request, secrets } = stored
    const open = (key: Redacted.Redacted<Uint8Array>) =>
      secrets === null ? Option.none() : decrypt(secrets, belonging(planId, request), key)
    const text = secrets === null ? "{}" : yield* Option.flatMap(key, open)
    const tokens = new Map(Object.entries(yield* Schema.decodeOption(Tokens)(text)))
    const kept = yield* Schema.decodeUnknownOption(KeptRequest)(request)
    const agents = kept.agents.map((agent, index) => {
      const token = tokens.get(`${index}`)
      return token === undefined ? agent : { ...agent, auth: { ...agent.auth, token } }
    })
    return yield* Schema.decodeUnknownOption(PlanRequest)({ ...kept, agents })
  })
