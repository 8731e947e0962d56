import { When } from "@bowline/domain/unstable/schedule/Schedule"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { decodeJson } from "../../src/api/Issues.ts"

const decode = decodeJson(PlanRequest)
const issues = (body: unknown) =>
  Result.match(decode(typeof body === "string" ? body : JSON.stringify(body)), {
    onSuccess: () => [],
    onFailure: (issues) => issues
  })
const nested = (levels: number): unknown => (levels === 0 ? "leaf" : { inner: nested(levels - 1) })

describe("Issues", () => {
  it("names every field that is wrong at once, unknown ones too", () => {
    const body = {
      questoin: "typo",
      mcp_servers: [{ name: "m", url: "http://x", approval: "sensitive", command: "rm" }],
      agents: [
        { name: "ok", endpoint: "ftp://x", skills: [{ id: "a" }, { id: "b", approval: "sensitive", timeout_ms: 99 }] },
        { name: "-", endpoint: "http://x", auth: { type: "bearer" } },
        { name: "c", endpoint: "http://x", auth: { type: "basic" } }
      ],
      preferences: { approval: "sometimes", max_steps: "4" }
    }
    assert.deepStrictEqual(
      issues(body)
        .map(({ path, message }) => `${path}: ${message}`)
        .sort(),
      [
        "agents[0].endpoint: Expected an http or https URL",
        'agents[0].skills[1].approval: Expected "never" | "always"',
        "agents[0].skills[1].timeout_ms: Expected a value between 100 and 21600000",
        "agents[1].auth.token: This field is required",
        "agents[1].name: Expected 1..64 characters of A-Z a-z 0-9 . _ -, the first one a letter or a digit",
        "agents[2].auth: Expected an object of type none, bearer, bearer_env, did_signed, oauth2_client_credentials, token_exchange or account",
        'mcp_servers[0].approval: Expected "never" | "always"',
        "mcp_servers[0].command: Expected a url instead: only the gateway's configuration may name a command",
        'preferences.approval: Expected "never" | "sensitive" | "always"',
        "preferences.max_steps: Expected number",
        "question: This field is required",
        "questoin: Unknown field"
      ]
    )
  })

  it("names of several shapes only what is wrong with the one that is meant", () => {
    const decode = decodeJson(When)
    const wrong = (body: unknown) =>
      Result.match(decode(JSON.stringify(body)), {
        onSuccess: () => [],
        onFailure: (issues) => issues.map(({ message, path }) => `${path}: ${message}`)
      })
    assert.deepStrictEqual(wrong({ cron: "0 9 * * *" }), ["time_zone: This field is required"])
    assert.deepStrictEqual(wrong({ every_ms: "1h" }), ["every_ms: Expected number"])
    assert.deepStrictEqual(wrong({ at: "2026-01-02T03:04:05Z", time_zone: "UTC" }), ["time_zone: Unknown field"])
    assert.include(wrong({}), "at: This field is required")
    assert.lengthOf(wrong("0 9 * * *"), 1)
  })

  it("repeats no value of the body: it may be a secret", () => {
    const auth = { type: "bearer", token: ["planted-secret"], extra: "planted-secret" }
    const found = issues({ question: "q", agents: [{ name: "a", endpoint: "http://u:planted-secret@x", auth }] })
    assert.deepStrictEqual(
      found.map((issue) => issue.path),
      ["agents[0].endpoint", "agents[0].auth.extra", "agents[0].auth.token"]
    )
    assert.notInclude(JSON.stringify(found), "planted-secret")
  })

  it("names each text and each name with half of a surrogate pair beside what else is wrong, unless any text may come", () => {
    const message = "Expected whole characters: it has half of a surrogate pair"
    const body = {
      question: "cut \ud83d",
      metadata: { "a\udc00": "b", whole: "🪢" },
      history: [{ role: "user", content: "\ud83d" }]
    }
    assert.deepStrictEqual(issues(body), [
      { path: "question", message },
      { path: 'metadata["a\\udc00"]', message },
      { path: "history[0].content", message }
    ])
    assert.deepStrictEqual(issues({ question: 1, metadata: { a: "\ud83d" } }), [
      { path: "question", message: "Expected string" },
      { path: "metadata.a", message }
    ])
    assert.deepStrictEqual(issues({ question: "🪢 \\ud83d" }), [])
    assert.isTrue(Result.isSuccess(decodeJson(PlanRequest, "any")(JSON.stringify(body))))
  })

  it("accepts 64 levels of nesting, and not one more", () => {
    // The body, `agents`, the agent, `skills`, the skill and `input_schema` are six of them.
    const body = (levels: number) => ({
      question: "q",
      agents: [{ name: "a", endpoint: "http://x", skills: [{ id: "s", input_schema: { properties: nested(levels) } }] }]
    })
    assert.deepStrictEqual(issues(body(58)), [])
    assert.deepStrictEqual(issues(body(59)), [{ path: "", message: "Expected at most 64 levels of nesting" }])
    assert.deepStrictEqual(issues("[".repeat(1_000_000) + "]".repeat(1_000_000)), [
      { path: "", message: "Expected at most 64 levels of nesting" }
    ])
  })

  it("counts the values before it parses them, and names only the first wrong field of many", () => {
    const entries = (count: number) => `{"question":"q","history":[${Array(count).fill(1).join()}]}`
    // The body, the question, the history and the entries; what stands in a string is not counted.
    assert.strictEqual(issues(entries(4_997)).length, 4_997)
    assert.deepStrictEqual(issues(entries(4_998)), [{ path: "history[0]", message: "Expected object" }])
    assert.deepStrictEqual(issues({ question: `"\\${"[,".repeat(60_000)}` }), [])
    assert.deepStrictEqual(issues(`${"1,".repeat(50_000)}1`), [
      { path: "", message: "Expected at most 50000 values, got 50001" }
    ])
  })

  it("says of a text that is not JSON, and of JSON that is not an object, just that", () => {
    assert.deepStrictEqual(issues('{"question": "q"'), [{ path: "", message: "Expected JSON" }])
    assert.deepStrictEqual(issues("[]"), [{ path: "", message: "Expected object" }])
  })
})
