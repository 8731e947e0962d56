import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import type { Host } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, finish, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "./RunningGateway.ts"

const strict = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: { knot: { $ref: "#/definitions/knot" } },
  required: ["knot"],
  additionalProperties: false,
  definitions: { knot: { type: ["string", "null"], description: "Its name" } }
}
/** Beyond what providers hold answers to. */
const loose = { type: "object", properties: { knot: { type: "string", minLength: 2 } } }
const list = { type: "array", items: { type: "string" } }

const openAi = (api: string) => (url: string, model: string) => ({
  OPENAI_BASE_URL: `${url}/v1`,
  OPENAI_API: api,
  BOWLINE_MODEL: `openai/${model}`
})

interface Wire {
  readonly name: string
  readonly host: { readonly make: (script: Script) => Effect.Effect<Host> }
  /** Of a gateway that asks this model of a server of the wire. */
  readonly settings: (url: string, model: string) => Readonly<Record<string, string>>
  /** One that can be held to a schema, and one that cannot. */
  readonly models: readonly [string, string]
  readonly sent: (schema: object, strict: boolean) => object
  /** Whether schemas beyond those that providers hold answers to are sent. */
  readonly loose: boolean
}

const wires: ReadonlyArray<Wire> = [
  {
    name: "chat",
    host: ChatHost,
    settings: openAi("chat"),
    models: ["gpt-4o", "gpt-4-turbo"],
    sent: (schema: object, strict: boolean) => ({
      response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict } }
    }),
    loose: true
  },
  {
    name: "responses",
    host: ResponsesHost,
    settings: openAi("responses"),
    models: ["gpt-4o", "gpt-4-turbo"],
    sent: (schema: object, strict: boolean) => ({
      text: { format: { type: "json_schema", name: "answer", schema, strict } }
    }),
    loose: true
  },
  {
    name: "messages",
    host: MessagesHost,
    settings: (url: string, model: string) => ({
      OPENAI_BASE_URL: "",
      ANTHROPIC_BASE_URL: url,
      BOWLINE_MODEL: `anthropic/${model}`
    }),
    models: ["claude-sonnet-4-5", "claude-3-haiku-20240307"],
    sent: (schema: object) => ({ output_config: { format: { type: "json_schema", schema } } }),
    loose: false
  }
]

/** What a request of the wire says of the format of its answer. */
const formatOf = (body: string) => {
  const { output_config, response_format, text } = JSON.parse(body) as Record<string, unknown>
  const said = Object.entries({ response_format, text, output_config })
  return Object.fromEntries(said.filter(([, value]) => value !== undefined))
}

const ask = Effect.fnUntraced(
  function* (wire: Wire, script: Script, schema: object, model: string = wire.models[0]) {
    const provider = yield* (yield* Network).serve(yield* wire.host.make(script))
    const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] })
    const { url } = yield* start([], { ...wire.settings(provider.url, model), BOWLINE_MAX_RETRIES: "0" })
    const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
    const preferences = { response_format: { type: "json_schema", schema } }
    const { body } = yield* post(`${url}/plan`, { question: "?", agents, preferences })
    return {
      body,
      asked: (yield* provider.requests.all).map(({ body }) => formatOf(body))
    }
  },
  Effect.provide(LoopbackNetwork.layer),
  Effect.scoped
)

const askBob = callTool("bob_ask", { input: "hi" })
const knot = say('{"knot":"bowline"}')
const output = { output: { knot: "bowline" } }

describe.each(wires)("over $name, a schema", (wire) => {
  it.live("is demanded in every step that may end the plan, and in its repair, of a model that can be held to it", () =>
    Effect.gen(function* () {
      const demanded = wire.sent(strict, true)
      const { asked, body } = yield* ask(wire, [[askBob], [say("no")], [knot]], strict)
      assert.deepInclude(body["final"], output)
      assert.deepStrictEqual(asked, [demanded, demanded, demanded])
      const other = yield* ask(wire, [[knot]], strict, wire.models[1])
      assert.deepInclude(other.body["final"], output)
      assert.deepStrictEqual(other.asked, [{}])
    })
  )

  it.live("beyond what the provider takes fails no plan", () =>
    Effect.gen(function* () {
      const beyond = yield* ask(wire, [[knot]], loose)
      assert.deepInclude(beyond.body["final"], output)
      assert.deepStrictEqual(beyond.asked, [wire.loose ? wire.sent(loose, false) : {}])
      const other = yield* ask(wire, [[say('["a"]')]], list)
      assert.deepInclude(other.body["final"], { output: ["a"] })
      assert.deepStrictEqual(other.asked, [{}])
    })
  )

  it.live("that the provider refuses all the same is not sent to it again", () =>
    Effect.gen(function* () {
      const { asked, body } = yield* ask(wire, [[error(400)], [askBob], [knot]], strict)
      assert.deepInclude(body["final"], output)
      assert.deepStrictEqual(asked, [wire.sent(strict, true), {}, {}])
      const wrong = yield* ask(wire, [[error(400)], [error(400)]], strict)
      assert.deepInclude(wrong.body["error"], { code: "provider_bad_request" })
    })
  )

  it.live("does not bind what continues an answer that was cut", () =>
    Effect.gen(function* () {
      const { asked, body } = yield* ask(wire, [[say('{"knot":'), finish("length")], [say('"bowline"}')]], strict)
      assert.deepInclude(body["final"], output)
      assert.deepStrictEqual(asked, [wire.sent(strict, true), {}])
    })
  )
})
