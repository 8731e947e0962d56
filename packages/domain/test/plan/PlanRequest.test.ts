import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result, Schema, SchemaIssue } from "effect"
import { PlanRequest, resolve } from "../../src/plan/PlanRequest.ts"

const decode = Schema.decodeUnknownResult(PlanRequest, { errors: "all", onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The paths of everything that is wrong with a body. */
const wrong = (body: unknown): ReadonlyArray<string> => {
  const result = decode(body)
  if (Result.isSuccess(result)) return []
  const paths = format(result.failure.issue).issues.map(({ path = [] }) =>
    path.map((key) => (typeof key === "object" ? key.key : key)).join(".")
  )
  return [...new Set(paths)].toSorted()
}

const agent = { name: "bob", endpoint: "http://localhost:1/" }
const withAgent = (fields: object) => ({ question: "?", agents: [{ ...agent, ...fields }] })
const prefer = (preferences: object) => ({ question: "?", preferences })

describe("PlanRequest", () => {
  it("has the defaults of the contract", () => {
    const request = Result.getOrThrow(decode({ question: "?", agents: [agent] }))
    assert.deepStrictEqual(resolve(request).preferences, {
      timeout_ms: 1_800_000,
      tool_timeout_ms: 600_000,
      max_steps: 25,
      max_hops: 5,
      max_tool_calls: 200,
      response_format: "text",
      on_disconnect: "cancel",
      on_busy: "queue",
      approval: "sensitive",
      wait_timeout_ms: 86_400_000,
      on_input_required: "end"
    })
    assert.deepStrictEqual(request.preferences, {})
    assert.deepInclude(request.agents[0], { auth: { type: "none" }, dialect: "auto" })
  })

  it("is made of a question alone, as it is decoded of one", () => {
    assert.deepStrictEqual(PlanRequest.make({ question: "?" }), Result.getOrThrow(decode({ question: "?" })))
  })

  it("is run as it says, else as its preset says, else by the defaults", () => {
    const request = Result.getOrThrow(decode({ ...prefer({ max_steps: 25 }), preset: "brief" }))
    const preset = { max_steps: 3, timeout_ms: 1_000, max_total_tokens: 9 }
    const resolved = resolve(request, preset)
    const expected = { max_steps: 25, max_total_tokens: 9, on_busy: "queue", timeout_ms: 1_000 } as const
    assert.deepInclude(resolved.preferences, expected)
    assert.strictEqual(resolved.preset, "brief")
    // It is stored so, and resumed with whatever the preset is by then.
    assert.deepStrictEqual(resolve(resolved, { timeout_ms: 2_000 }).preferences, resolved.preferences)
  })

  it("accepts what is on a limit, and names every field that is beyond it", () => {
    const cases: ReadonlyArray<readonly [good: object, bad: object, ...paths: ReadonlyArray<string>]> = [
      [{ question: "x".repeat(200_000) }, { question: "x".repeat(200_001) }, "question"],
      [{ question: " ?" }, { question: " \n" }, "question"],
      [{ question: "?", session_id: "s".repeat(200) }, { question: "?", session_id: "s".repeat(201) }, "session_id"],
      [{ question: "?", session_id: "a b" }, { question: "?", session_id: "ä" }, "session_id"],
      [
        { question: "?", metadata: { a: "x".repeat(512) } },
        { question: "?", metadata: { a: "x".repeat(513) } },
        "metadata.a"
      ],
      // The database looks for plans by an index whose entries have 8 kB at most.
      [
        { question: "?", metadata: { ["k".repeat(512)]: "x" } },
        { question: "?", metadata: { ["k".repeat(513)]: "x" } },
        "metadata"
      ],
      [
        prefer({ timeout_ms: 100 }),
        prefer({ timeout_ms: 99, max_steps: 0 }),
        "preferences.max_steps",
        "preferences.timeout_ms"
      ],
      [prefer({ timeout_ms: 21_600_000 }), prefer({ timeout_ms: 21_600_001 }), "preferences.timeout_ms"],
      [prefer({ tool_timeout_ms: 100 }), prefer({ tool_timeout_ms: 1.5 }), "preferences.tool_timeout_ms"],
      [prefer({ max_steps: 100 }), prefer({ max_steps: 101 }), "preferences.max_steps"],
      [prefer({ max_tool_calls: 0 }), prefer({ max_tool_calls: 1_001 }), "preferences.max_tool_calls"],
      [prefer({ on_busy: "reject" }), prefer({ on_busy: "panic" }), "preferences.on_busy"],
      [prefer({}), prefer({ max_stepz: 3 }), "preferences.max_stepz"],
      [{ question: "?" }, { question: "?", max_steps: 3 }, "max_steps"],
      [{ question: "?" }, {}, "question"],
      [withAgent({ name: "a".repeat(64) }), withAgent({ name: "a".repeat(65) }), "agents.0.name"],
      [withAgent({ endpoint: "https://a.test/x" }), withAgent({ endpoint: "ftp://a.test/" }), "agents.0.endpoint"],
      [withAgent({}), withAgent({ endpoint: "http://user:secret@a.test/" }), "agents.0.endpoint"],
      [withAgent({ dialect: "bindu" }), withAgent({ dialect: "a2a-9" }), "agents.0.dialect"],
      [withAgent({ auth: { type: "bearer", token: "t" } }), withAgent({ auth: { type: "magic" } }), "agents.0.auth"],
      [
        withAgent({ skills: [{ id: "a", description: "x".repeat(4_096) }] }),
        withAgent({ skills: [{ id: "a", description: "x".repeat(4_097) }] }),
        "agents.0.skills.0.description"
      ],
      [
        { question: "?", agents: Array.from({ length: 64 }, () => agent) },
        { question: "?", agents: Array.from({ length: 65 }, () => agent) },
        "agents"
      ]
    ]
    for (const [good, bad, ...paths] of cases) {
      assert.deepStrictEqual(wrong(good), [])
      assert.deepStrictEqual(wrong(bad), paths)
    }
  })

  it("keeps a token out of sight from the first line on", () => {
    const request = Result.getOrThrow(decode(withAgent({ auth: { type: "bearer", token: "planted-secret" } })))
    assert.notInclude(JSON.stringify(request), "planted-secret")
    const auth = request.agents[0]?.auth
    assert.strictEqual(auth?.type === "bearer" ? Redacted.value(auth.token) : undefined, "planted-secret")
  })
})
