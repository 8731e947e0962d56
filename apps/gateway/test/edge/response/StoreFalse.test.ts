import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { post, send, startOn, stores } from "../../http/RunningGateway.ts"

interface Asked {
  readonly messages: ReadonlyArray<{ readonly content: string }>
}

describe("a response that is not to be stored", () => {
  for (const [name, store] of Object.entries(stores))
    it.live(`reads its session, leaves nothing there, and can be read by no route once it is over (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)([[say("one")], [say("two")], [say("three")]])
        const ask = (input: string, fields: object) =>
          post(`${url}/v1/responses`, { model: "bowline", input, ...fields })
        const first = yield* ask("a", { conversation: "talk" })
        const hidden = yield* ask("b", { conversation: "talk", store: false })
        assert.deepStrictEqual([first.status, hidden.status], [200, 200])
        const plan = hidden.headers.get("x-bowline-plan-id") ?? assert.fail()
        for (const path of [`/plans/${plan}`, `/plans/${plan}/events`, `/v1/responses/resp_${plan}`]) {
          yield* Effect.repeat(send(url + path), {
            until: ({ status }) => status === 404,
            schedule: Schedule.spaced("20 millis")
          })
        }
        const { body } = yield* send(`${url}/plans`)
        assert.notInclude(JSON.stringify(body), plan)
        const history = yield* send(`${url}/sessions/talk/messages`)
        assert.lengthOf(history.body["messages"] as ReadonlyArray<unknown>, 2)
        yield* ask("c", { previous_response_id: first.body["id"] })
        const told = (yield* provider.requests.all).map(({ body }) =>
          (JSON.parse(body) as Asked).messages.slice(1).map(({ content }) => content)
        )
        assert.deepStrictEqual(told, [["a"], ["a", "one", "b"], ["a", "one", "c"]])
      })
    )
})
