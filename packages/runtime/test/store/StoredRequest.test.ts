import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { Option, Redacted, Result, Schema } from "effect"
import {
  isWhole,
  restore,
  shown,
  store as storeSent,
  type StoredRequest,
  written
} from "../../src/store/StoredRequest.ts"

const planId = PlanId.make("plan_00000000-0000-4000-8000-000000000001")
const otherPlan = PlanId.make("plan_00000000-0000-4000-8000-000000000002")

const keyOf = (byte: number) => Option.some(Redacted.make(new Uint8Array(32).fill(byte)))
const key = keyOf(7)

/** Stands in every token, so that it can be looked for. */
const planted = "planted-secret-"
const token = Schema.String.check(Schema.isMaxLength(200))
const name = Schema.NonEmptyString.check(Schema.isMaxLength(100))

const bearer = Schema.Struct({ type: Schema.Literal("bearer"), token })
const openAuths = [
  Schema.Struct({ type: Schema.Literal("none") }),
  Schema.Struct({ type: Schema.Literal("bearer_env"), env_var: name }),
  Schema.Struct({ type: Schema.Literal("did_signed"), token_env_var: Schema.optionalKey(name) }),
  Schema.Struct({
    type: Schema.Literal("oauth2_client_credentials"),
    token_url: Schema.Literal("https://id.example/token"),
    client_id: name,
    client_secret_env_var: name,
    scope: Schema.optionalKey(name)
  })
] as const
const open = Schema.Array(Schema.Union(openAuths)).check(Schema.isMaxLength(4))
const mixed = Schema.Array(Schema.Union([bearer, ...openAuths])).check(Schema.isMaxLength(4))
const withBearer = Schema.TupleWithRest(Schema.Tuple([bearer]), [Schema.Union([bearer, ...openAuths])]).check(
  Schema.isMaxLength(4)
)
const input_schema = Schema.Record(Schema.String, Schema.Json)
const timeout_ms = Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 21_600_000 }))

type Given = typeof mixed.Type

/** As it came over the wire: a request of agents with these `auth`s, which says more than is kept of it. */
const requestOf = (auths: Given, schema: typeof input_schema.Type = {}, timeout = 1_000): PlanRequest => {
  const agents = auths.map((auth, index) => ({
    name: `agent${index}`,
    endpoint: "https://peer.example/",
    auth: auth.type === "bearer" ? { ...auth, token: `${planted}${auth.token}` } : auth,
    skills: [{ id: "ask", input_schema: schema }]
  }))
  const body = {
    question: "What is a bowline?",
    session_id: "knots",
    agents,
    history: [{ role: "user", content: "told before" }],
    prior_summary: "summed up before",
    metadata: { team: "ropes" },
    instructions: "Speak like a sailor.",
    sampling: { temperature: 0.5, stop: ["END"], max_tokens: 9 },
    preferences: { timeout_ms: timeout }
  }
  const sent: unknown = JSON.parse(JSON.stringify(body))
  return Schema.decodeUnknownSync(PlanRequest)(sent)
}

const store = (request: PlanRequest, ...rest: [typeof planId, Parameters<typeof restore>[2]]) =>
  storeSent(written(request), ...rest)

/** What a store gives back. */
const read = (stored: StoredRequest): StoredRequest => ({
  request: Schema.decodeSync(Schema.fromJsonString(Schema.Json))(JSON.stringify(stored.request)),
  secrets: stored.secrets
})

const withoutHistory = (request: PlanRequest) => {
  const { prior_summary: _, ...kept } = Schema.encodeSync(PlanRequest)(request)
  return Option.some({ ...kept, history: [] })
}

/** With its tokens in clear text, so that they are compared as well. */
const restored = (stored: StoredRequest, id = planId, withKey: Parameters<typeof restore>[2] = key) =>
  Option.map(Result.getSuccess(restore(read(stored), id, withKey)), Schema.encodeSync(PlanRequest))

/** Why it does not come back. */
const lackOf = (stored: StoredRequest, withKey: Parameters<typeof restore>[2] = key) =>
  Option.getOrUndefined(Result.getFailure(restore(read(stored), planId, withKey)))

describe("a stored request", () => {
  it.prop(
    "comes back as it was, without its history",
    { mixed, input_schema, timeout_ms },
    ({ mixed, input_schema, timeout_ms }) => {
      const request = requestOf(mixed, input_schema, timeout_ms)
      assert.deepStrictEqual(restored(store(request, planId, key)), withoutHistory(request))
    }
  )

  it.prop("has no token in it", { mixed }, ({ mixed }) => {
    for (const withKey of [key, Option.none()]) {
      const text = JSON.stringify(store(requestOf(mixed), planId, withKey))
      for (const token of [planted, Buffer.from(planted).toString("base64")]) assert.notInclude(text, token)
    }
  })

  it("is kept as it came, but for its secrets", () => {
    const sent = {
      question: "?",
      agents: [{ name: "a", endpoint: "https://a.example/", auth: { type: "bearer", token: planted } }],
      mcp_servers: [{ name: "m", url: "https://m.example/", headers: { "x-key": planted } }],
      history: [{ role: "user", content: "Before" }],
      prior_summary: "Once"
    }
    assert.deepStrictEqual(storeSent(sent, planId, key).request, {
      ...sent,
      agents: [{ name: "a", endpoint: "https://a.example/", auth: { type: "bearer" } }],
      mcp_servers: [{ name: "m", url: "https://m.example/", headers: null }]
    })
  })

  it("has agents though it came without, which a former version expects, and is shown as it came", () => {
    const stored = storeSent({ question: "?" }, planId, key)
    assert.nestedPropertyVal(stored.request, "agents.length", 0)
    assert.deepStrictEqual(shown(stored.request), { question: "?" })
    const given = { question: "?", agents: [] }
    assert.deepStrictEqual(shown(storeSent(given, planId, key).request), given)
  })

  it("says why it cannot be restored", () => {
    const withToken = storeSent(written(requestOf([{ type: "bearer", token: "" }])), planId, Option.none())
    assert.strictEqual(lackOf(withToken), "secret")
    const at = { name: "m", url: "https://m.example/" }
    for (const secret of [{ headers: { "x-key": planted } }, { url: `${at.url}?token=${planted}` }]) {
      const sent = { question: "?", mcp_servers: [{ ...at, ...secret }] }
      assert.strictEqual(lackOf(storeSent(sent, planId, Option.none())), "secret")
    }
    const sealed = storeSent(written(requestOf([{ type: "bearer", token: "" }])), planId, key)
    assert.strictEqual(lackOf(sealed, keyOf(8)), "key")
    assert.strictEqual(lackOf(sealed, Option.none()), "key")
    const later = { question: "?", agents: [], preferences: { on_busy: "as a later version knows it" } }
    assert.strictEqual(lackOf({ request: later, secrets: null }), "shape")
    assert.strictEqual(lackOf({ request: { agents: 7 }, secrets: null }), "shape")
  })

  it.prop("cannot be restored without its token, which is not kept without a key", { withBearer }, ({ withBearer }) => {
    const stored = store(requestOf(withBearer), planId, Option.none())
    assert.isNull(stored.secrets)
    assert.deepStrictEqual(restored(stored), Option.none())
    const kept = store(requestOf(withBearer), planId, key)
    assert.deepStrictEqual(restored(kept, planId, Option.none()), Option.none())
  })

  it.prop("needs no key when it has no token", { open }, ({ open }) => {
    const request = requestOf(open)
    for (const withKey of [key, Option.none()]) {
      const stored = store(request, planId, withKey)
      assert.isNull(stored.secrets)
      assert.deepStrictEqual(restored(stored, planId, Option.none()), withoutHistory(request))
    }
  })

  it.prop("gives its tokens to no other plan and no other key", { withBearer }, ({ withBearer }) => {
    const stored = store(requestOf(withBearer), planId, key)
    assert.deepStrictEqual(restored(stored, otherPlan), Option.none())
    assert.deepStrictEqual(restored(stored, planId, keyOf(8)), Option.none())
    assert.deepStrictEqual(restored(stored, planId, Option.some(Redacted.make(new Uint8Array(5)))), Option.none())
  })

  it("cannot be restored when any byte of its secrets is changed or missing", () => {
    const stored = store(requestOf([{ type: "bearer", token: "" }]), planId, key)
    const bytes = Buffer.from(stored.secrets ?? "", "base64")
    assert.isAbove(bytes.length, 12 + 16 + planted.length)
    bytes.forEach((byte, index) => {
      for (const bit of [0x01, 0x80]) {
        const changed = Buffer.from(bytes)
        changed[index] = byte ^ bit
        assert.deepStrictEqual(restored({ ...stored, secrets: changed.toString("base64") }), Option.none())
      }
      const cut = bytes.subarray(0, index).toString("base64")
      assert.deepStrictEqual(restored({ ...stored, secrets: cut }), Option.none())
    })
  })

  it("keeps the secrets of URLs of agents apart, and cannot be restored without them", () => {
    const endpoint = `https://a.example/b?page=2&token=${planted}`
    const agents = [
      { name: "a", endpoint: "https://a.example/?page=2" },
      { name: "b", endpoint }
    ]
    const request = Schema.decodeUnknownSync(PlanRequest)({ question: "?", agents })
    const stored = store(request, planId, key)
    assert.nestedPropertyVal(stored.request, "agents[1].endpoint", "https://a.example/b?page=2&token=")
    assert.deepStrictEqual(restored(stored), withoutHistory(request))
    assert.deepStrictEqual(restored(store(request, planId, Option.none())), Option.none())
    assert.deepStrictEqual([isWhole(request, key), isWhole(request, Option.none())], [true, false])
  })

  it("is encrypted differently each time", () => {
    const request = requestOf([{ type: "bearer", token: "" }])
    const secrets = Array.from({ length: 100 }, () => store(request, planId, key).secrets?.slice(0, 16))
    assert.strictEqual(new Set(secrets).size, secrets.length)
  })

  it.prop("cannot be restored when it is no request", { request: Schema.Json }, ({ request }) => {
    assert.deepStrictEqual(restored({ request, secrets: null }), Option.none())
  })

  it.prop("cannot be restored when its secrets are not its own", { secrets: Schema.String }, ({ secrets }) => {
    assert.deepStrictEqual(restored({ ...store(requestOf([]), planId, key), secrets }), Option.none())
  })

  it("keeps the secrets of MCP servers apart, and cannot be restored without them", () => {
    const at = (name: string) => ({ name, url: "https://mcp.example/" })
    const token_url = `https://id.example/?page=2&password=${planted}`
    const grant = { type: "oauth2_client_credentials", token_url, client_id: "c", client_secret_env_var: "V" }
    for (const secret of [
      { url: `https://mcp.example/?api_key=${planted}` },
      { auth: grant },
      { url: `https://mcp.example/?key=${planted}&page=2`, auth: grant, headers: { "x-key": planted } },
      { headers: { "x-key": planted } },
      { auth: { type: "bearer", token: planted } },
      { auth: { type: "bearer", token: planted }, headers: { "x-key": `${planted}2` } }
    ]) {
      const mcp_servers = [at("first"), { ...at("second"), ...secret }]
      const request = Schema.decodeUnknownSync(PlanRequest)({ question: "?", mcp_servers })
      const stored = store(request, planId, key)
      assert.notInclude(JSON.stringify(stored), planted)
      assert.deepStrictEqual(restored(stored), withoutHistory(request))
      assert.deepStrictEqual(restored(store(request, planId, Option.none())), Option.none())
      assert.deepStrictEqual([isWhole(request, key), isWhole(request, Option.none())], [true, false])
    }
  })
})
