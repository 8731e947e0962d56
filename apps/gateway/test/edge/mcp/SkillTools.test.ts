import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, fails, produces, says, stuck, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Schedule, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start, stores } from "../../http/RunningGateway.ts"
import { settled } from "../../plan/Cluster.ts"
import * as GatewayProcess from "../../plan/GatewayProcess.ts"
import { clients, modernClient } from "./McpClients.ts"

const file = (content: object) =>
  Effect.map(folderOf({ "gateway.json": JSON.stringify(content) }), (folder) => ({
    BOWLINE_CONFIG: join(folder, "gateway.json")
  }))

const city = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
}

const weatherAt = (url: string, skill: object = {}) => ({
  name: "weather",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "forecast", description: "Tells the weather of tomorrow", input_schema: city, ...skill }]
})

interface Answer {
  readonly plan_id: string
  readonly state: string
  readonly text: string
  readonly code?: string
  readonly retryable?: boolean
}

const answerOf = ({ structuredContent }: { readonly structuredContent?: unknown }) => structuredContent as Answer

/** A gateway with one agent, whose peer does this, and a provider that answers to nobody. */
const begin = Effect.fnUntraced(function* (acts: ScriptedPeer.PeerScript["acts"], skill: object = {}) {
  const peer = yield* ScriptedPeer.serve({ acts })
  const { provider, url } = yield* start([], yield* file({ agents: [weatherAt(peer.url, skill)] }))
  return { peer, provider, url }
})

const kiel = { city: "Kiel" }

describe.each(clients)("the %s", (_, connect) => {
  it.live("lists a configured skill with its own schema, and calls it without a planner", () =>
    Effect.gen(function* () {
      const { peer, provider, url } = yield* begin([produces("sunny"), completes()])
      const client = yield* connect(url)
      const listed = (yield* client.tools).find(({ name }) => name === "weather_forecast")
      assert.deepInclude(listed, { description: "Tells the weather of tomorrow", inputSchema: city })
      const result = yield* client.call("weather_forecast", kiel)
      assert.isNotTrue(result.isError)
      assert.deepInclude(answerOf(result), { state: "completed", text: "sunny" })
      assert.lengthOf((yield* peer.seen).sends, 1)
      assert.lengthOf(yield* provider.requests.all, 0)
      const stored = yield* send(`${url}/plans/${answerOf(result).plan_id}`)
      assert.deepInclude(stored.body, { question: 'weather_forecast {"city":"Kiel"}', steps: 0, tool_calls: 1 })
      // What is shown of it is a body of `POST /plan`, which takes no call.
      assert.property(stored.body["request"], "call")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("reads why a call has failed, and which of its arguments are wrong", () =>
    Effect.gen(function* () {
      const { peer, url } = yield* begin([fails("no weather there")])
      const client = yield* connect(url)
      const failed = yield* client.call("weather_forecast", kiel)
      assert.isTrue(failed.isError)
      assert.deepInclude(answerOf(failed), { state: "failed", code: "tool_failed", retryable: false })
      assert.include(answerOf(failed).text, "no weather there")
      const wrong = yield* client.call("weather_forecast", { town: "Kiel" })
      assert.isTrue(wrong.isError)
      assert.deepInclude(answerOf(wrong), { state: "failed", code: "invalid_request" })
      for (const name of ["city", "town"]) assert.include(answerOf(wrong).text, name)
      assert.lengthOf((yield* peer.seen).sends, 1)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("sees the progress of a call, and ends the peer's task when it gives the call up", () =>
    Effect.gen(function* () {
      const { peer, url } = yield* begin([says("looking out of the window"), stuck])
      const client = yield* connect(url)
      const leaving = new AbortController()
      const told: Array<string | undefined> = []
      const onprogress = ({ message }: { readonly message?: string | undefined }) => {
        told.push(message)
        if (message?.includes("window") === true) leaving.abort()
      }
      const calling = yield* Effect.forkChild(
        Effect.exit(client.call("weather_forecast", kiel, { signal: leaving.signal, onprogress })),
        { startImmediately: true }
      )
      yield* peer.cancelled
      assert.isTrue(Exit.isFailure(yield* Fiber.join(calling)))
      assert.include(told, "calling weather_forecast")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

it.live("a call that needs an approval is made when the client's user gives it", () =>
  Effect.gen(function* () {
    const { peer, url } = yield* begin([produces("sunny"), completes()], { approval: "always" })
    const approving = yield* modernClient(url, {
      elicit: () => ({ action: "accept", content: { decision: "approve" } })
    })
    assert.strictEqual(answerOf(yield* approving.call("weather_forecast", kiel)).text, "sunny")
    const rejecting = yield* modernClient(url, { elicit: () => ({ action: "decline" }) })
    const rejected = yield* rejecting.call("weather_forecast", kiel)
    assert.isTrue(rejected.isError)
    assert.include(answerOf(rejected).text, "rejected")
    assert.lengthOf((yield* peer.seen).sends, 1)
  }).pipe(Effect.provide(LoopbackNetwork.layer))
)

it.live(
  "the tools of a caller are the skills that it may call; the first one of a name counts, and ours come first",
  () =>
    Effect.gen(function* () {
      const [one, two] = yield* Effect.all([
        ScriptedPeer.serve({ acts: [produces("of the first"), completes()] }),
        ScriptedPeer.serve({ acts: [produces("of the second"), completes()] })
      ])
      const environment = yield* file({
        agents: [
          { name: "plan", endpoint: `${one.url}/`, skills: [{ id: "result" }] },
          { name: "ask", endpoint: `${one.url}/`, skills: [{ id: "sky" }] },
          { name: "carded", endpoint: `${one.url}/` },
          weatherAt(one.url)
        ],
        presets: {
          sky: {
            agents: [
              weatherAt(two.url),
              { name: "sun", endpoint: `${two.url}/`, dialect: "a2a-0.3", skills: [{ id: "rise" }, { id: "set" }] }
            ],
            permissions: { tools: { deny: ["sun_set"] } }
          },
          secret: { agents: [{ name: "moon", endpoint: `${two.url}/`, skills: [{ id: "rise" }] }] }
        },
        permissions: { ann: { presets: { deny: ["secret"] } }, bob: { presets: { allow: ["sky"] } } }
      })
      const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
      const { url } = yield* start(() => [say("planned")], { ...environment, ...keys })
      const [ann, bob] = yield* Effect.all([
        modernClient(url, { key: "key-of-ann" }),
        modernClient(url, { key: "key-of-bob" })
      ])
      const own = ["plan", "plan_result", "plan_cancel", "ask_sky"]
      for (const client of [ann, bob]) {
        assert.deepStrictEqual(
          (yield* client.tools).map(({ name }) => name),
          [...own, "weather_forecast", "sun_rise"]
        )
      }
      assert.strictEqual(answerOf(yield* ann.call("weather_forecast", kiel)).text, "of the first")
      assert.strictEqual(answerOf(yield* bob.call("weather_forecast", kiel)).text, "of the second")
      assert.strictEqual(answerOf(yield* ann.call("sun_rise", { input: "?" })).text, "of the second")
      assert.strictEqual(answerOf(yield* ann.call("ask_sky", { question: "?" })).text, "planned")
      for (const name of ["sun_set", "moon_rise"]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(ann.call(name, { input: "?" }))), name)
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
)

it.live("a call whose gateway is killed is finished by the next one, and the peer is asked once", () =>
  Effect.gen(function* () {
    const peer = yield* ScriptedPeer.serve({
      acts: [says("on it"), works("3 seconds"), produces("sunny"), completes()]
    })
    const settings = {
      ...(yield* stores.postgres),
      ...(yield* file({ agents: [weatherAt(peer.url)] })),
      BOWLINE_LEASE_TTL: "1s",
      OPENAI_BASE_URL: "http://127.0.0.1:9/v1",
      BOWLINE_MODEL: "openai/none"
    }
    const first = yield* GatewayProcess.start(settings)
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "weather_forecast", arguments: kiel } }
    yield* Effect.forkChild(Effect.exit(post(`${first.url}/mcp`, call, { accept: "text/event-stream" })), {
      startImmediately: true
    })
    const plans = Effect.map(send(`${first.url}/plans`), ({ body }) => body["plans"] as ReadonlyArray<Answer>)
    const [plan] = yield* Effect.repeat(plans, {
      until: (found) => found.length > 0,
      schedule: Schedule.spaced("20 millis")
    })
    const { plan_id = "" } = plan ?? {}
    yield* GatewayProcess.replay(first.url, plan_id).pipe(
      Stream.takeUntil(({ event }) => event === "task.progress"),
      Stream.runDrain
    )
    yield* first.kill("SIGKILL")
    const next = yield* GatewayProcess.start(settings)
    assert.deepInclude(yield* settled(next.url, plan_id), { state: "completed", steps: 0, tool_calls: 1 })
    assert.lengthOf((yield* peer.seen).sends, 1)
    const client = yield* modernClient(next.url)
    assert.strictEqual(answerOf(yield* client.call("plan_result", { plan_id })).text, "sunny")
  }).pipe(Effect.provide(LoopbackNetwork.layer))
)
