import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "../http/RunningGateway.ts"

describe("a model that is in the table", () => {
  it.live("is asked in the way that it can answer", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const anthropic = yield* network.serve(yield* MessagesHost.make([[say("one")], [say("two")]]))
      const openai = yield* network.serve(yield* ResponsesHost.make([[say("three")], [say("four")]]))
      const { url } = yield* start([], {
        ANTHROPIC_API_KEY: "key",
        ANTHROPIC_BASE_URL: anthropic.url,
        OPENAI_BASE_URL: `${openai.url}/v1`,
        OPENAI_API: "responses",
        BOWLINE_ALLOWED_MODELS: "*"
      })
      const models = [
        "anthropic/claude-3-haiku-20240307",
        "anthropic/claude-sonnet-4-5",
        "openai/gpt-4.1-mini",
        "openai/gpt-5-mini"
      ]
      yield* Effect.forEach(models, (model) => post(`${url}/plan`, { question: "?", preferences: { model } }))
      const requests = [...(yield* anthropic.requests.all), ...(yield* openai.requests.all)]
      assert.deepStrictEqual(
        requests.map(({ body }) => {
          const { max_tokens, include } = JSON.parse(body) as { max_tokens?: number; include?: ReadonlyArray<string> }
          return max_tokens ?? include
        }),
        [4_096, 32_000, undefined, ["reasoning.encrypted_content"]]
      )
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
