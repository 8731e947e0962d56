import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { eventsOf, post, start } from "./RunningGateway.ts"

describe("failover", () => {
  it.live("continues with another provider's model when the first one has nothing left to try, and says so", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const anthropic = yield* network.serve(yield* MessagesHost.make([[say("from the "), say("other side")]]))
      const { url, provider } = yield* start([[error(500)], [error(401)]], {
        OPENAI_API_KEY: "planted-secret",
        OPENAI_API: "chat",
        ANTHROPIC_API_KEY: "other-planted-secret",
        ANTHROPIC_BASE_URL: anthropic.url,
        BOWLINE_FALLBACK_MODELS: "anthropic/claude",
        BOWLINE_RETRY_BASE: "1ms"
      })
      const { text } = yield* post(`${url}/plan`, { question: "?" }, { accept: "text/event-stream" })
      assert.deepStrictEqual(eventsOf(text), [
        "session",
        "plan",
        "step",
        "retry",
        "retry",
        "text.delta",
        "text.delta",
        "final",
        "done"
      ])
      const retries = Array.from(text.matchAll(/^event: retry\ndata: (.+)$/gm), ([, data = ""]) => data)
      assert.match(retries[0] ?? "", /"credential":"openai-1","model":"openai\/.*provider_server_error/)
      assert.match(
        retries[1] ?? "",
        /"delay_ms":0,"credential":"anthropic-1","model":"anthropic\/claude".*provider_auth/
      )
      assert.match(text, /"text":"from the other side"/)
      assert.notInclude(text, "planted-secret")
      assert.strictEqual((yield* provider.requests.all).length, 2)

      // The key that was refused is blocked: the next plan does not ask it.
      const next = yield* post(`${url}/plan`, { question: "?" }, { accept: "text/event-stream" })
      assert.match(next.text, /^event: plan\ndata: .*"model":"anthropic\/claude"/m)
      assert.strictEqual((yield* provider.requests.all).length, 2)
      assert.strictEqual((yield* anthropic.requests.all).length, 2)
      assert.strictEqual(next.status, 200)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
