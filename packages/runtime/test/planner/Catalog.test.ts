import { say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { layer, post, readAll } from "@bowline/testing/TestKit"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"

it.effect("offers 128 tools at most, however many the cards of agents name", () =>
  Effect.gen(function* () {
    const agents = ["a", "b", "c"].map((name) => ({ name, endpoint: `http://${name}.test/` }))
    yield* readAll((yield* post({ question: "?", agents })).frames)
    const [asked] = yield* (yield* ScriptedProvider).asked.all
    assert.strictEqual(asked?.tools.length, 128)
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
