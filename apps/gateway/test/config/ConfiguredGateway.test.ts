import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as MessagesHost from "@bowline/testing/provider/MessagesHost"
import type { Script } from "@bowline/testing/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { post, start } from "../http/RunningGateway.ts"
import { folderOf } from "./ConfigFolder.ts"

const script: Script = ({ messages }) =>
  messages.some(({ role }) => role === "tool") ? [say("done")] : [callTool("bob_ask", { input: "?" })]

/** A gateway whose provider, that speaks Messages, is in its file; and a peer that says a lot. */
const configured = Effect.fnUntraced(function* (script: Script, members: object, providerMembers: object = {}) {
  const network = yield* Network
  const provider = yield* network.serve(yield* MessagesHost.make(script))
  const peer = yield* ScriptedPeer.serve({ acts: [completes("x".repeat(20_000))] })
  const providers = [
    {
      name: "local",
      wire: "anthropic-messages",
      base_url: "$PROVIDER_URL",
      headers: { "x-tenant": "acme" },
      api_keys: ["$PROVIDER_KEY"],
      models: { small: { context_window: 2_000, output_limit: 77 } },
      ...providerMembers
    }
  ]
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ providers, ...members }) })
  const { url } = yield* start([], {
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    OPENAI_BASE_URL: "",
    PROVIDER_URL: provider.url,
    PROVIDER_KEY: "key-of-local"
  })
  const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
  const { text } = yield* post(`${url}/plan`, { question: "?", agents }, { accept: "text/event-stream" })
  return { requests: yield* provider.requests.all, text }
}, Effect.provide(LoopbackNetwork.layer))

describe("a gateway with a file", () => {
  it.live("asks the provider of the file, as the file says, and shows its model what it has room for", () =>
    Effect.gen(function* () {
      const { requests, text } = yield* configured(script, {})
      assert.match(text, /^event: final$/m)
      const [first, second] = requests
      assert.deepInclude(first?.headers, { "x-api-key": "key-of-local", "x-tenant": "acme" })
      assert.deepInclude(JSON.parse(first?.body ?? ""), { model: "small", max_tokens: 77 })
      assert.include(second?.body, "characters left out")
      const { requests: roomy } = yield* configured(
        script,
        { models: { small: { context_window: 1_000 } } },
        {
          models: { small: { context_window: 100_000 } }
        }
      )
      assert.notInclude(roomy[1]?.body, "characters left out")
    }).pipe(Effect.scoped)
  )

  it.live("holds the provider to the timers, and callers to the egress rules, of the file", () =>
    Effect.gen(function* () {
      const silent = yield* configured(
        () => [stall],
        { plans: { max_retries: 0 } },
        { timeouts: { first_token: "50ms" } }
      )
      assert.include(silent.text, "provider_first_token_timeout")
      const fenced = yield* configured(script, { egress: { deny: ["127.0.0.0/8"] } })
      assert.include(fenced.text, "egress_denied")
    }).pipe(Effect.scoped)
  )
})
