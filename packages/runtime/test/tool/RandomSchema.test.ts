import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, it } from "@effect/vitest"
import { Config, Effect, Result } from "effect"
import { InputValidator } from "../../src/tool/InputValidator.ts"
import type { Tool } from "../../src/tool/Tool.ts"
import { problem } from "../../src/tool/ToolSchema.ts"
import { randomCall } from "./RandomSchema.ts"

/** For how many milliseconds of its own work the thread that serves requests may be held up by one call. */
const longestWork = 100

const toolOf = (inputSchema: Tool["inputSchema"]): Tool => ({
  name: "bob_ask",
  kind: "peer",
  agent: "bob",
  endpoint: "http://bob.test/",
  skill: "ask",
  description: "",
  inputSchema,
  timeoutMs: undefined,
  isIdempotent: false,
  isPolling: false,
  approval: undefined,
  identify: Effect.succeed(null),
  call: () => Effect.never
})

it.live(
  "comes to an end with whatever schema, and serves the next one",
  () =>
    Effect.gen(function* () {
      const count = yield* Config.Int("BOWLINE_SCHEMAS").pipe(Config.withDefault(25))
      const validator = yield* InputValidator
      let longest = 0
      let refused = 0
      const ends = { fits: 0, wrong: 0, unusable: 0, ended: 0 }
      for (let seed = 1; seed <= count; seed++) {
        const { input, schema } = randomCall(seed)
        // Also those that no request may have: what is stored may be older than the rule.
        if (problem(schema) !== undefined) refused++
        const before = process.threadCpuUsage()
        const result = yield* validator.parse(CallerName.make(`c${seed}`), toolOf(schema), JSON.stringify(input))
        const { system, user } = process.threadCpuUsage(before)
        longest = Math.max(longest, (system + user) / 1_000)
        if (Result.isSuccess(result)) ends.fits++
        else if (result.failure.message.startsWith("The arguments do not match")) ends.wrong++
        else if (result.failure.message.includes("It takes more than")) ends.ended++
        else {
          assert.match(result.failure.message, /^The schema of the tool cannot be used\./, `seed ${seed}`)
          ends.unusable++
        }
      }
      yield* Effect.logInfo(
        `${refused} refused, ${JSON.stringify(ends)}, at most ${longest.toFixed(0)} ms of this thread's work for one`
      )
      const plain = toolOf({ required: ["a"] })
      assert.isTrue(Result.isSuccess(yield* validator.parse(CallerName.make("ann"), plain, '{"a": 1}')))
      assert.isBelow(refused, count)
      // The checks are not this thread's work, and they have not all come to the same.
      assert.isBelow(longest, longestWork)
      for (const end of ["fits", "wrong", "unusable"] as const) assert.isAbove(ends[end], 0, end)
    }).pipe(Effect.provide(InputValidator.layer)),
  1_800_000
)
