import { stall, until } from "@bowline/testing/http/Move"
import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { post, type RunningGateway, send, startOn, stores } from "../../http/RunningGateway.ts"

const ask = { model: "bowline", messages: [{ role: "user", content: "?" }] }

const attempt = ({ url }: Pick<RunningGateway, "url">, count: number, fields: object = {}, headers = {}) =>
  post(`${url}/v1/chat/completions`, { ...ask, ...fields }, { "x-stainless-retry-count": String(count), ...headers })

const planOf = ({ headers }: { readonly headers: Headers }) => headers.get("x-bowline-plan-id")

for (const [name, store] of Object.entries(stores)) {
  describe(`a request that an SDK sends again (${name})`, () => {
    it.live("joins the plan of its first try while that runs, and gets its outcome afterwards", () =>
      Effect.gen(function* () {
        const proceed = yield* Deferred.make<void>()
        const gateway = yield* startOn(store)([[until(Deferred.await(proceed)), say("once")]])
        const first = yield* Effect.forkChild(attempt(gateway, 0))
        yield* gateway.provider.requests.awaitCount(1)
        // The order of keys does not matter.
        const again = yield* Effect.forkChild(
          post(
            `${gateway.url}/v1/chat/completions`,
            { messages: ask.messages, model: ask.model },
            {
              "x-stainless-retry-count": "1"
            }
          )
        )
        yield* Deferred.succeed(proceed, undefined)
        const plan = planOf(yield* Fiber.join(first))
        assert.strictEqual(planOf(yield* Fiber.join(again)), plan)
        const third = yield* attempt(gateway, 2)
        assert.strictEqual(planOf(third), plan)
        assert.include(third.text, "once")
        assert.lengthOf(yield* gateway.provider.requests.all, 1)
      })
    )

    it.live("gets a failure of its first try, too", () =>
      Effect.gen(function* () {
        const gateway = yield* startOn(store)([[error(401)]])
        const answers = [yield* attempt(gateway, 0), yield* attempt(gateway, 1)]
        assert.deepStrictEqual(
          answers.map(({ status }) => status),
          [502, 502]
        )
        assert.lengthOf(yield* gateway.provider.requests.all, 1)
      })
    )

    it.live("starts anew if its first try was left, is another one, or is one of several", () =>
      Effect.gen(function* () {
        const gateway = yield* startOn(store)([[stall], ...Array.from({ length: 7 }, () => [say("ok")])])
        const left = yield* Effect.forkChild(attempt(gateway, 0))
        const [asked] = yield* gateway.provider.requests.awaitCount(1)
        yield* Fiber.interrupt(left)
        yield* asked?.ended ?? Effect.void
        yield* Effect.repeat(send(`${gateway.url}/plans`), { until: ({ text }) => text.includes('"aborted"') })
        const second = yield* attempt(gateway, 1)
        assert.strictEqual(second.status, 200)
        assert.strictEqual(planOf(yield* attempt(gateway, 2)), planOf(second))
        const others = [
          yield* attempt(gateway, 1, { user: "u" }),
          yield* attempt(gateway, 1, {}, { "x-bowline-session": "s" })
        ]
        const twins = yield* Effect.all([attempt(gateway, 0, { seed: 1 }), attempt(gateway, 0, { seed: 1 })], {
          concurrency: 2
        })
        const whose = yield* attempt(gateway, 1, { seed: 1 })
        const plans = [second, ...others, ...twins, whose].map(planOf)
        assert.strictEqual(new Set(plans).size, 6)
      })
    )
  })
}
