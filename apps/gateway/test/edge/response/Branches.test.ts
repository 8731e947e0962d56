import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"

interface Asked {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }>
}

const promptOf = (body: string | undefined) =>
  (JSON.parse(body ?? "{}") as Asked).messages.filter(({ role }) => role !== "system").map(({ content }) => content)

describe("two responses that follow the same one", () => {
  it.live(
    "are branches: each knows what was said up to there, at once or one after the other, also with store: false",
    () =>
      Effect.gen(function* () {
        const { provider, url } = yield* start(() => [say("ok")])
        const ask = Effect.fnUntraced(function* (input: string, fields: object = {}) {
          const { body, headers, status } = yield* post(`${url}/v1/responses`, { model: "bowline", input, ...fields })
          assert.strictEqual(status, 200)
          return { id: body["id"] as string, session: headers.get("x-bowline-session") ?? "" }
        })
        const first = yield* ask("one", { conversation: "mine" })
        const behind = { previous_response_id: first.id }
        const second = yield* Effect.all([ask("left", behind), ask("right", behind)], { concurrency: "unbounded" })
        const third = yield* ask("late", behind)
        const sessions = [first, ...second, third].map(({ session }) => session)
        assert.strictEqual(new Set(sessions).size, 3)
        assert.strictEqual(sessions.filter((session) => session === "mine").length, 2)
        yield* ask("hidden", { ...behind, store: false })
        yield* ask("later still", { previous_response_id: third.id })
        const asked = (yield* provider.requests.all).map(({ body }) => promptOf(body))
        const begun = ["one", "ok"]
        assert.sameDeepMembers(asked, [
          ["one"],
          [...begun, "left"],
          [...begun, "right"],
          [...begun, "late"],
          [...begun, "hidden"],
          [...begun, "late", "ok", "later still"]
        ])
        // What a branch says is not in the session of the response that it follows.
        const { body } = yield* send(`${url}/sessions/mine/messages`)
        assert.lengthOf(body["messages"] as ReadonlyArray<unknown>, 4)
      })
  )
})
