import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

const agent = { name: "ann", endpoint: "http://127.0.0.1:9/" }
const skill = { id: "ask" }
const withSkill = (fields: object) => ({ agents: [{ ...agent, skills: [{ ...skill, ...fields }] }] })
const preferring = (fields: object) => ({ preferences: fields })
const many = <A>(count: number, make: (index: number) => A) => Array.from({ length: count }, (_, index) => make(index))

/** What is wrong with a body, and the fields that are named for it. */
const wrong: ReadonlyArray<readonly [fields: object, ...paths: ReadonlyArray<string>]> = [
  [{ question: undefined }, "question"],
  [{ question: " \n" }, "question"],
  [{ question: 1 }, "question"],
  [{ question: "x".repeat(200_001) }, "question"],
  [{ session_id: "" }, "session_id"],
  [{ session_id: "x".repeat(201) }, "session_id"],
  [{ session_id: "zwölf" }, "session_id"],
  [{ agents: {} }, "agents"],
  [{ agents: many(65, (index) => ({ ...agent, name: `a${index}` })) }, "agents"],
  [{ agents: [{ endpoint: agent.endpoint }] }, "agents[0].name"],
  [{ agents: [{ ...agent, name: ".ann" }] }, "agents[0].name"],
  [{ agents: [agent, agent] }, "agents[1].name"],
  [{ agents: [{ ...agent, endpoint: "file:///etc/passwd" }] }, "agents[0].endpoint"],
  [{ agents: [{ ...agent, endpoint: "http://user:password@host/" }] }, "agents[0].endpoint"],
  [{ agents: [{ ...agent, auth: { type: "basic" } }] }, "agents[0].auth"],
  [{ agents: [{ ...agent, auth: { type: "bearer" } }] }, "agents[0].auth.token"],
  [{ agents: [{ ...agent, auth: { type: "bearer_env", env_var: "PATH" } }] }, "agents[0].auth.env_var"],
  [{ agents: [{ ...agent, auth: { type: "did_signed", token_env_var: "PATH" } }] }, "agents[0].auth.token_env_var"],
  [
    {
      agents: [
        {
          ...agent,
          auth: {
            type: "oauth2_client_credentials",
            token_url: "http://auth.test/",
            client_id: "me",
            client_secret_env_var: "PATH"
          }
        }
      ]
    },
    "agents[0].auth.client_secret_env_var"
  ],
  [{ agents: [{ ...agent, dialect: "soap" }] }, "agents[0].dialect"],
  [{ agents: [{ ...agent, skills: many(65, (index) => ({ id: `s${index}` })) }] }, "agents[0].skills"],
  [{ agents: [{ ...agent, trust: { pinned_did: "bob" } }] }, "agents[0].trust.pinned_did"],
  [{ agents: [{ ...agent, context_id: "" }] }, "agents[0].context_id"],
  [{ agents: [{ ...agent, reference_task_ids: many(65, String) }] }, "agents[0].reference_task_ids"],
  [withSkill({ id: "" }), "agents[0].skills[0].id"],
  [withSkill({ description: "x".repeat(4_097) }), "agents[0].skills[0].description"],
  [withSkill({ input_schema: { type: "nothing" } }), "agents[0].skills[0].input_schema"],
  [withSkill({ timeout_ms: 21_600_001 }), "agents[0].skills[0].timeout_ms"],
  [{ agents: [{ ...agent, skills: [skill, { id: "ask" }] }] }, "agents[0].skills[1].id"],
  [{ metadata: { key: 1 } }, "metadata.key"],
  [{ metadata: { key: "x".repeat(513) } }, "metadata.key"],
  [{ metadata: Object.fromEntries(many(17, (index) => [`k${index}`, ""])) }, "metadata"],
  [preferring({ timeout_ms: 99 }), "preferences.timeout_ms"],
  [preferring({ timeout_ms: 21_600_001 }), "preferences.timeout_ms"],
  [preferring({ tool_timeout_ms: 99 }), "preferences.tool_timeout_ms"],
  [preferring({ max_steps: 0 }), "preferences.max_steps"],
  [preferring({ max_steps: 101 }), "preferences.max_steps"],
  [preferring({ max_steps: 1.5 }), "preferences.max_steps"],
  [preferring({ max_tool_calls: 1_001 }), "preferences.max_tool_calls"],
  [preferring({ model: "openai/other" }), "preferences.model"],
  [preferring({ on_disconnect: "stay" }), "preferences.on_disconnect"],
  [preferring({ on_busy: "wait" }), "preferences.on_busy"],
  [preferring({ max_stpes: 1 }), "preferences.max_stpes"],
  [{ history: [{ role: "tool", content: "?" }] }, "history[0].role"],
  [{ history: [{ role: "user", content: ["?"] }] }, "history[0].content"],
  [{ history: [{ role: "user", content: "?", name: "me" }] }, "history[0].name"],
  [{ history: many(1_001, () => ({ role: "user", content: "?" })) }, "history"],
  [{ prior_summary: "x".repeat(100_001) }, "prior_summary"],
  [{ prior_summary: null }, "prior_summary"],
  [{ mcp_servers: many(17, (index) => ({ name: `m${index}`, url: "http://x" })) }, "mcp_servers"],
  [{ mcp_servers: [{ name: "m", command: "rm" }] }, "mcp_servers[0].command", "mcp_servers[0].url"],
  [preferring({ max_hops: 17 }), "preferences.max_hops"],
  [preferring({ approval: "sometimes" }), "preferences.approval"]
]

const paths = (body: Readonly<Record<string, unknown>>) =>
  (body["issues"] as ReadonlyArray<{ readonly path: string }>).map(({ path }) => path).sort()

describe("a refused request", () => {
  it.live("names each field that is wrong, and leaves no trace", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([])
      for (const [fields, ...expected] of wrong) {
        const { status, headers, body } = yield* post(`${url}/plan`, { question: "?", ...fields })
        const label = JSON.stringify(fields).slice(0, 200)
        assert.strictEqual(status, 400, label)
        assert.strictEqual(headers.get("content-type"), "application/problem+json")
        assert.deepInclude(body, { status: 400, code: "invalid_request", retryable: false }, label)
        assert.strictEqual(body["request_id"], headers.get("x-request-id"))
        assert.deepStrictEqual(paths(body), expected, label)
      }
      for (const key of ["", "k".repeat(201), "schlüssel", "a\tb"]) {
        const { status, body } = yield* post(`${url}/plan`, { question: "?" }, { "idempotency-key": key })
        assert.deepStrictEqual([status, paths(body)], [400, ["idempotency-key"]], key)
      }
      for (const text of ["", "{", "[]", "null", `{"question": "\ud800`, "\u0000"]) {
        assert.strictEqual((yield* post(`${url}/plan`, text)).body["code"], "invalid_request", text)
      }
      const latin1 = { method: "POST", headers: { "content-type": "application/json" } }
      const invalidUtf8 = Buffer.from('{"question":"zwölf"}', "latin1")
      assert.strictEqual((yield* send(`${url}/plan`, { ...latin1, body: invalidUtf8 })).status, 400)

      assert.deepStrictEqual((yield* send(`${url}/plans`)).body["plans"], [])
      assert.deepStrictEqual((yield* send(`${url}/sessions`)).body["sessions"], [])
      assert.deepStrictEqual(yield* provider.requests.all, [])
    })
  )

  it.live("is one of another media type, or encoded", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const sent = [
        { "content-type": "text/plain" },
        { "content-type": "application/x-www-form-urlencoded" },
        { "content-type": "application/jsonp" },
        { "content-encoding": "gzip" }
      ]
      for (const headers of sent) {
        const { status, body } = yield* post(`${url}/plan`, { question: "?" }, headers)
        assert.deepStrictEqual([status, body["code"]], [415, "unsupported_media_type"])
      }
    })
  )

  it.live("is one with a field or a body that is not allowed, where none is needed", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const codeOf = (path: string, body: string | null, headers: Record<string, string>) =>
        Effect.map(send(url + path, { method: "POST", body, headers }), ({ body }) => [body["code"], body["issues"]])
      const json = { "content-type": "application/json" }
      const form = { "content-type": "application/x-www-form-urlencoded" }
      for (const path of ["/plans/any/cancel", "/sessions/nobody/compact"]) {
        // It is read, and only what it is asked for is not there.
        for (const [body, headers] of [
          [null, {}],
          ["", form],
          ["{}", json]
        ] as const) {
          assert.deepStrictEqual(yield* codeOf(path, body, headers), ["not_found", undefined], path)
        }
        const unknown = [{ path: "force", message: "Unknown field" }]
        assert.deepStrictEqual(yield* codeOf(path, '{"force":true}', json), ["invalid_request", unknown])
        for (const body of ["{", "[]", "null"]) {
          assert.strictEqual((yield* codeOf(path, body, json))[0], "invalid_request", body)
        }
        assert.strictEqual((yield* codeOf(path, "a=b", form))[0], "unsupported_media_type")
      }
    })
  )

  it.live("is one without such a route, or with another method", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      for (const path of ["/plan/x", "/plans/plan_x", "/plans/%", "/sessions/nobody", "/sessions/nobody/messages"]) {
        const { status, headers, body } = yield* send(url + path)
        assert.deepStrictEqual([status, body["code"]], [404, "not_found"], path)
        assert.strictEqual(body["request_id"], headers.get("x-request-id"))
      }
      for (const path of ["/plans/any/cancel", "/plan", "/plan/", "//plan", "/PLAN"]) {
        const { status, headers, body } = yield* send(url + path)
        assert.deepStrictEqual([status, body["code"], headers.get("allow")], [405, "method_not_allowed", "POST"], path)
      }
      // Two routes have it.
      const { headers } = yield* send(`${url}/a2a/agents/any/.well-known/agent-card.json`, { method: "PATCH" })
      assert.strictEqual(headers.get("allow"), "GET, POST, DELETE")
    })
  )

  it.live("keeps the id that the caller gave it, if that can be printed", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const named = (id: string) =>
        Effect.map(send(`${url}/nowhere`, { headers: { "x-request-id": id } }), ({ headers, body }) => {
          assert.strictEqual(body["request_id"], headers.get("x-request-id"))
          return body["request_id"]
        })
      assert.strictEqual(yield* named("caller's own 1"), "caller's own 1")
      for (const id of ["x".repeat(129), "ä", ""]) assert.match(String(yield* named(id)), /^[0-9a-f-]{36}$/)
    })
  )
})
