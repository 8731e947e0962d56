import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"

it.effect("has 2,000 tools at most, however many the cards of agents name", () =>
  Effect.gen(function* () {
    const agents = Array.from({ length: 32 }, (_, index) => ({ name: `a${index}`, endpoint: `http://a${index}.test/` }))
    const events = yield* readAll((yield* post({ question: "?", agents })).frames)
    const [asked] = yield* (yield* ScriptedProvider).asked.all
    assert.include(asked?.system, "- a30 (64 tools)")
    assert.include(asked?.system, "- a31 (16 tools)")
    const { code, data, message } = single(events, "notice")
    const tools = Array.from({ length: 48 }, (_, index) => `a31_skill-${index + 16}`)
    const reason = "A plan has at most 2000 tools"
    assert.deepStrictEqual(data, { agent: "a31", tools: tools.map((tool) => ({ tool, reason })) })
    assert.deepStrictEqual([code, message], ["tool_missing", `Tools of the agent a31 are missing: ${tools.join(", ")}`])
  }).pipe(
    Effect.provide(
      layer({
        script: [[say("ok")]],
        peers: {
          discover: () =>
            Effect.succeed({ skills: Array.from({ length: 64 }, (_, index) => ({ id: `skill-${index}` })), did: null })
        }
      })
    ),
    Effect.scoped
  )
)

it.effect(
  "leaves out a skill of a card whose schema cannot be used, and tells the caller in front of the first step",
  () =>
    Effect.gen(function* () {
      const agents = [{ name: "bob", endpoint: "http://bob.test/" }]
      const events = yield* readAll((yield* post({ question: "?", agents })).frames)
      const [asked] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(
        asked?.tools.map(({ name }) => name),
        ["bob_good"]
      )
      assert.deepStrictEqual(
        all(events, "notice").map(({ data }) => data),
        [
          {
            agent: "bob",
            tools: [
              {
                tool: "bob_deep",
                reason: "Its input schema cannot be used. Expected at most 1024 alternatives, got 1025"
              }
            ]
          }
        ]
      )
      const names = events.map((item) => (typeof item === "string" ? item : item.event))
      assert.deepStrictEqual(names.slice(0, 4), ["session", "plan", "notice", "step"])
    }).pipe(
      Effect.provide(
        layer({
          script: [[say("ok")]],
          peers: {
            discover: () =>
              Effect.succeed({
                skills: [
                  { id: "deep", input_schema: { anyOf: Array.from({ length: 1_025 }, () => true) } },
                  { id: "good", input_schema: { type: "object" } }
                ],
                did: null
              })
          }
        })
      ),
      Effect.scoped
    )
)

it.effect("tells the caller of an agent whose card cannot be had, and the planner, too", () =>
  Effect.gen(function* () {
    const agents = [{ name: "bob", endpoint: "http://bob.test/" }]
    const events = yield* readAll((yield* post({ question: "?", agents })).frames)
    assert.deepInclude(single(events, "notice"), {
      code: "card_unavailable",
      message: "The card of the agent bob is not available: the plan has none of its skills. Nobody answers",
      data: { agent: "bob", reason: "unreachable" }
    })
    const [asked] = yield* (yield* ScriptedProvider).asked.all
    assert.include(asked?.system, "These could not be reached, and cannot be called: bob.")
  }).pipe(
    Effect.provide(
      layer({
        script: [[say("ok")]],
        peers: {
          discover: () => Effect.fail(new PeerError({ reason: new Unreachable({ message: "Nobody answers" }) }))
        }
      })
    ),
    Effect.scoped
  )
)

it.effect("cuts what it says of a schema of a card to 500 characters", () =>
  Effect.gen(function* () {
    const agents = [{ name: "bob", endpoint: "http://bob.test/" }]
    const { data } = single(yield* readAll((yield* post({ question: "?", agents })).frames), "notice")
    const text = JSON.stringify(data)
    assert.match(text, /Its input schema cannot be used\. Expected regular expressions, got .*\(é.*characters left out/)
    assert.isBelow(text.length, 700)
  }).pipe(
    Effect.provide(
      layer({
        script: [[say("ok")]],
        peers: {
          discover: () =>
            Effect.succeed({ skills: [{ id: "long", input_schema: { pattern: `(${"é".repeat(60_000)}` } }], did: null })
        }
      })
    ),
    Effect.scoped
  )
)
