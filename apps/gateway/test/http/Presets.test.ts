import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { becomes, completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { eventsOf, payloads, post, send, start, type RunningGateway } from "./RunningGateway.ts"

const token = "planted-secret"
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
const stream = { accept: "text/event-stream" }

/** Calls the one tool that it is offered first, and then answers. */
const calling: Script = (asked) => {
  const [tool] = asked.tools
  return tool === undefined || results(asked).length > 0 ? [say("ok")] : [callTool(tool.name, { input: "?" })]
}

/** What the provider was asked in each request. */
const asked = ({ provider }: Pick<RunningGateway, "provider">) =>
  Effect.map(provider.requests.all, (requests) =>
    requests.map(({ body }) => {
      const sent = JSON.parse(body) as {
        readonly model: string
        readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }>
        readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
      }
      const system = sent.messages.find(({ role }) => role === "system")?.content ?? ""
      return { model: sent.model, system, tools: (sent.tools ?? []).map((tool) => tool.function.name) }
    })
  )

/** A gateway with a peer and an MCP server in its presets, and what `more` puts into its file. */
const configured = Effect.fnUntraced(function* (more: object = {}, script: Script = calling) {
  const peer = yield* ScriptedPeer.serve({ token, acts: [completes("done")] })
  const server = yield* ScriptedMcpServer.serve({
    list: () => ({ tools: [{ name: "forecast", inputSchema: { type: "object" } }] }),
    call: (request) => Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] }))
  })
  const agent = {
    name: "rigger",
    endpoint: `${peer.url}/`,
    dialect: "a2a-0.3",
    auth: { type: "bearer_env", env_var: "PEER_TOKEN" },
    skills: [{ id: "ask" }]
  }
  const weather = { name: "weather", url: `${server.url}/mcp`, headers: { "x-key": "$PEER_TOKEN" } }
  const file = {
    agents: [{ ...agent, name: "usual" }],
    presets: {
      knots: {
        description: "Knows ropes",
        agents: [agent],
        model: "openai/knots-1",
        preferences: { max_steps: 3 },
        instructions: "Speak like a sailor."
      },
      sky: { mcp_servers: [weather] }
    },
    ...more
  }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify(file) })
  const environment = { ...callers, BOWLINE_CONFIG: join(folder, "gateway.json"), PEER_TOKEN: token }
  return { ...(yield* start(script, environment)), peer, server, agent }
})

const isolated = <A, E>(test: Effect.Effect<A, E, Effect.Services<ReturnType<typeof configured>>>) =>
  test.pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)

describe("a preset", () => {
  it.live("brings its plans agents, a model, preferences and instructions", () =>
    Effect.gen(function* () {
      const gateway = yield* configured({}, (asked) =>
        asked.toolChoice === "none" ? [say("ok")] : [callTool("rigger_ask", { input: "?" })]
      )
      const { peer, url } = gateway
      const ask = { question: "?", preset: "knots" }
      const { text } = yield* post(`${url}/plan`, ask, { ...by("ann"), ...stream })
      assert.deepNestedInclude(payloads(text, "plan")[0], { model: "openai/knots-1" })
      assert.deepNestedInclude(payloads(text, "task.artifact")[0], { content: "done" })
      assert.deepNestedInclude(payloads(text, "final")[0], { stop_reason: "max_steps", steps: 3 })
      for (const { model, system, tools } of yield* asked(gateway)) {
        assert.deepStrictEqual([model, tools], ["knots-1", ["rigger_ask"]])
        assert.match(system, /^You are a planner\.[^]*\n\nSpeak like a sailor\.\n\n/)
      }
      for (const { headers } of yield* peer.requests.all)
        assert.strictEqual(headers["authorization"], `Bearer ${token}`)
      const own = yield* post(`${url}/plan`, { ...ask, preferences: { max_steps: 1 } }, { ...by("ann"), ...stream })
      assert.deepNestedInclude(payloads(own.text, "final")[0], { steps: 1 })
    }).pipe(isolated)
  )

  it.live("brings MCP servers, and what the request names comes on top", () =>
    Effect.gen(function* () {
      const gateway = yield* configured()
      const { agent, peer, server, url } = gateway
      const agents = [{ ...agent, name: "own", auth: { type: "bearer", token } }]
      const { text } = yield* post(`${url}/plan`, { question: "?", preset: "sky", agents }, { ...by("ann"), ...stream })
      assert.sameMembers((yield* asked(gateway))[0]?.tools ?? [], ["weather_forecast", "own_ask"])
      assert.lengthOf(payloads(text, "task.finished"), 1)
      assert.lengthOf((yield* peer.seen).sends, 1)
      for (const { headers } of yield* server.requests) assert.strictEqual(headers["x-key"], token)
    }).pipe(isolated)
  )

  it.live("is `default` for a request that names none: the agents and servers of the file itself", () =>
    Effect.gen(function* () {
      const gateway = yield* configured({}, [[say("ok")], [say("ok")], [say("ok")]])
      const { url } = gateway
      for (const preset of [{}, { preset: "default" }, { preset: "sky" }]) {
        yield* post(`${url}/plan`, { question: "?", session_id: "s", ...preset }, by("ann"))
      }
      const listed = (yield* send(`${url}/plans`, { headers: by("ann") })).body["plans"]
      const presets = (listed as ReadonlyArray<{ readonly preset: unknown }>).map(({ preset }) => preset)
      assert.deepStrictEqual(presets, ["sky", "default", null])
      const offered = (yield* asked(gateway)).map(({ tools }) => tools)
      assert.deepStrictEqual(offered, [["usual_ask"], ["usual_ask"], ["weather_forecast"]])
    }).pipe(isolated)
  )

  it.live("that does not exist is refused, and so is one with a tool of the same name", () =>
    Effect.gen(function* () {
      const { agent, url } = yield* configured()
      const cases = [
        [{ preset: "Knots" }, "preset", 'Expected default or knots or sky, got "Knots"'],
        [{ preset: "" }, "preset", /./],
        [{ preset: 7 }, "preset", /./],
        [{ preset: "k".repeat(65) }, "preset", /./],
        [
          { preset: "knots", agents: [{ ...agent, auth: { type: "none" }, skills: [{ id: "sail" }] }] },
          "agents[0].name",
          "Expected another name than that of rigger, an agent of the preset knots"
        ],
        [
          { preset: "sky", mcp_servers: [{ name: "weather", url: "https://mcp.example/" }] },
          "mcp_servers[0].name",
          "Expected another name than that of weather, a server of the preset sky"
        ],
        [
          { preset: "knots", agents: [{ ...agent, name: "own" }] },
          "agents[0].auth.env_var",
          "Expected a variable that BOWLINE_ENV_ALLOW (server.env_allow in the file) names"
        ],
        [{ preset: "knots", preferences: { model: "openai/knots-1" } }, "preferences.model", /allowed model/]
      ] as const
      for (const [fields, path, message] of cases) {
        const { body, status } = yield* post(`${url}/plan`, { question: "?", ...fields }, by("ann"))
        assert.deepStrictEqual([status, body["code"]], [400, "invalid_request"], path)
        const [issue, ...others] = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        assert.deepStrictEqual([issue?.path, others], [path, []])
        if (typeof message === "string") assert.strictEqual(issue?.message, message)
        else assert.match(issue?.message ?? "", message)
      }
      assert.deepStrictEqual((yield* send(`${url}/plans`, { headers: by("ann") })).body["plans"], [])
    }).pipe(isolated)
  )

  it.live("has the secrets to cancel what a deleted session left open", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ token, acts: [becomes("input-required", "Where?")] })
      const auth = { type: "bearer", token: "$PEER_TOKEN" }
      const rigger = { name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3", auth, skills: [{ id: "ask" }] }
      const { url } = yield* configured({ presets: { knots: { agents: [rigger] } } })
      yield* post(`${url}/plan`, { question: "?", session_id: "s", preset: "knots" }, by("ann"))
      const session = yield* send(`${url}/sessions/s`, { headers: by("ann") })
      assert.deepStrictEqual(session.body["agents"], [])
      yield* send(`${url}/sessions/s`, { method: "DELETE", headers: by("ann") })
      yield* peer.cancelled
    }).pipe(isolated)
  )

  it.live("belongs to the body that an Idempotency-Key stands for", () =>
    Effect.gen(function* () {
      const { url } = yield* configured({}, [[say("ok")]])
      const headers = { ...by("ann"), "idempotency-key": "k" }
      const first = yield* post(`${url}/plan`, { question: "?", preset: "sky" }, headers)
      const again = yield* post(`${url}/plan`, { preset: "sky", question: "?" }, headers)
      assert.strictEqual(again.body["plan_id"], first.body["plan_id"])
      const other = yield* post(`${url}/plan`, { question: "?", preset: "knots" }, headers)
      assert.deepStrictEqual([other.status, other.body["code"]], [409, "idempotency_conflict"])
    }).pipe(isolated)
  )
})

describe("GET /presets", () => {
  it.live("shows names, and neither URLs nor secrets", () =>
    Effect.gen(function* () {
      const { url } = yield* configured()
      const { body, status } = yield* send(`${url}/presets`, { headers: by("ann") })
      const model = "openai/gpt-5-mini"
      assert.deepStrictEqual([status, body["presets"]], [
        200,
        [
          { name: "default", description: null, agents: ["usual"], mcp_servers: [], model },
          { name: "knots", description: "Knows ropes", agents: ["rigger"], mcp_servers: [], model: "openai/knots-1" },
          { name: "sky", description: null, agents: [], mcp_servers: ["weather"], model }
        ]
      ] as unknown)
      assert.strictEqual((yield* send(`${url}/presets`)).status, 401)
    }).pipe(isolated)
  )

  it.live("shows what the caller may use, and no other preset can be asked", () =>
    Effect.gen(function* () {
      const gateway = yield* configured({ permissions: { ann: { presets: { allow: ["s*"] } }, bob: {} } })
      const { url } = gateway
      const names = (caller: string) =>
        Effect.map(send(`${url}/presets`, { headers: by(caller) }), ({ body }) =>
          (body["presets"] as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)
        )
      assert.deepStrictEqual(yield* names("ann"), ["sky"])
      assert.deepStrictEqual(yield* names("bob"), ["default", "knots", "sky"])
      for (const preset of ["knots", "default", "nothing"]) {
        const { body, status } = yield* post(`${url}/plan`, { question: "?", preset }, by("ann"))
        assert.strictEqual(status, 400)
        const message = `Expected sky, got "${preset}"`
        assert.deepStrictEqual(body["issues"], [{ path: "preset", message }] as unknown)
      }
      const { text } = yield* post(`${url}/plan`, { question: "?" }, { ...by("ann"), ...stream })
      assert.deepStrictEqual((yield* asked(gateway))[0]?.tools, [])
      assert.notInclude(eventsOf(text), "notice")
    }).pipe(isolated)
  )

  it.live("is empty where nothing is configured", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      assert.deepStrictEqual((yield* send(`${url}/presets`)).body["presets"], [])
    })
  )
})

describe("the permissions of a preset", () => {
  it.live("narrow those of the caller, and never widen them", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("done")] })
      const agent = { name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3" }
      const skills = ["ask", "pay", "sail"].map((id) => ({ id }))
      const permissions = { tools: { deny: ["*_pay"] }, models: { allow: ["*"] } }
      const gateway = yield* configured(
        {
          agents: [],
          presets: { knots: { agents: [{ ...agent, skills }], permissions } },
          plans: { allowed_models: ["openai/*"] },
          permissions: {
            ann: { tools: { deny: ["*_sail"] }, models: { deny: ["*/big"] } },
            bob: { hosts: { deny: ["127.*"] } }
          }
        },
        () => [say("ok")]
      )
      const { url } = gateway
      const ask = (caller: string, more: object = {}) =>
        post(`${url}/plan`, { question: "?", preset: "knots", ...more }, { ...by(caller), ...stream })
      const seen = yield* ask("ann")
      const { status } = yield* ask("ann", { preferences: { model: "openai/big" } })
      assert.strictEqual(status, 400)
      yield* ask("bob")
      const offered = (yield* asked(gateway)).map(({ tools }) => tools)
      assert.deepStrictEqual(offered, [["rigger_ask"], []])
      // The caller has not named them: what it may not use is nothing to it.
      assert.notInclude(seen.text, "rigger_pay")
    }).pipe(isolated)
  )
})
