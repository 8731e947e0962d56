import { CallerName } from "@bowline/domain/caller/CallerName"
import { hostOf } from "@bowline/runtime/unstable/config/Permissions"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf, load, problems } from "./file/ConfigFolder.ts"
import { post, type RunningGateway, start } from "../http/RunningGateway.ts"

const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,cid=key-of-cid", OPENAI_API_KEY: "key" }

/** A gateway with callers ann, bob and cid, and a peer. */
const configured = Effect.fnUntraced(function* (permissions: string, script: Script = () => [say("ok")]) {
  const peer = yield* ScriptedPeer.serve({ acts: [completes("done")] })
  const folder = yield* folderOf({ "gateway.yaml": `permissions: ${permissions}` })
  const gateway = yield* start(script, { ...callers, BOWLINE_CONFIG: join(folder, "gateway.yaml") })
  const agent = { name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "pay" }, { id: "ask" }] }
  return { ...gateway, peer, agent }
})

/** The tools that the provider was offered in each request. */
const offered = ({ provider }: Pick<RunningGateway, "provider">) =>
  Effect.map(provider.requests.all, (requests) =>
    requests.map(({ body }) => {
      const { tools = [] } = JSON.parse(body) as { tools?: ReadonlyArray<{ function: { name: string } }> }
      return tools.map((tool) => tool.function.name)
    })
  )

/** The payloads of the events of this name in the text of a stream. */
const payloads = (text: string, event: string): ReadonlyArray<Record<string, unknown>> =>
  Array.from(
    text.matchAll(new RegExp(`^event: ${event}\ndata: (.+)$`, "gm")),
    ([, data = "{}"]) => JSON.parse(data) as Record<string, unknown>
  )

const stream = { accept: "text/event-stream" }

const isolated = <A, E>(test: Effect.Effect<A, E, Effect.Services<ReturnType<typeof configured>>>) =>
  test.pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)

describe("permissions", () => {
  it.live("keep tools from the model and from being called, and do not tell the model that they exist", () =>
    Effect.gen(function* () {
      const script: Script = (asked) =>
        results(asked).length === 0 ? [callTool("rigger_pay", { input: "7" })] : [say("ok")]
      const gateway = yield* configured("{ ann: { tools: { allow: ['rigger_*'], deny: ['*_pay'] } }, '*': {} }", script)
      const { agent, peer, url } = gateway
      const { text } = yield* post(`${url}/plan`, { question: "?", agents: [agent] }, { ...by("ann"), ...stream })
      assert.deepStrictEqual(yield* offered(gateway), [["rigger_ask"], ["rigger_ask"]])
      const [, second] = yield* gateway.provider.requests.all
      assert.match(second?.body ?? "", /There is no tool \\"rigger_pay\\". The nearest: rigger_ask"/)
      assert.deepInclude(payloads(text, "task.finished")[0], { state: "invalid" })
      const reason = "The permissions of the caller do not allow it"
      assert.deepInclude(payloads(text, "notice")[0], {
        code: "tool_missing",
        data: { agent: "rigger", tools: [{ tool: "rigger_pay", reason }] }
      })
      assert.lengthOf((yield* peer.seen).sends, 0)
      yield* post(`${url}/plan`, { question: "?", agents: [agent] }, by("bob"))
      assert.deepStrictEqual((yield* offered(gateway))[2], ["rigger_pay", "rigger_ask"])
      assert.lengthOf((yield* peer.seen).sends, 1)
    }).pipe(isolated)
  )

  it.live("keep tools of MCP servers from the model", () =>
    Effect.gen(function* () {
      const tools = ["read", "write"].map((name) => ({ name, inputSchema: { type: "object" } }))
      const server = yield* ScriptedMcpServer.serve({ list: () => ({ tools }) })
      const gateway = yield* configured("{ ann: { tools: { deny: ['files_w*'] } } }")
      const mcp_servers = [{ name: "files", url: `${server.url}/mcp` }]
      const { text } = yield* post(`${gateway.url}/plan`, { question: "?", mcp_servers }, { ...by("ann"), ...stream })
      assert.deepStrictEqual(yield* offered(gateway), [["files_read"]])
      const reason = "The permissions of the caller do not allow it"
      assert.deepInclude(payloads(text, "notice")[0], { data: { server: "files", tools: [{ tool: "write", reason }] } })
    }).pipe(isolated)
  )

  it.live("refuse requests that name a host, and never connect to it", () =>
    Effect.gen(function* () {
      const { agent, peer, url } = yield* configured(
        "{ ann: { hosts: { allow: ['*.Agents.example', '::1'] } }, bob: {} }"
      )
      const token_url = `${peer.url}/token`
      const auth = { type: "oauth2_client_credentials", token_url, client_id: "x", client_secret_env_var: "X" }
      const { skills: _, ...discovered } = agent
      const body = {
        question: "?",
        agents: [
          { ...discovered, dialect: "auto" },
          { name: "right", endpoint: "http://A.AGENTS.example.:99/", auth },
          { name: "local", endpoint: "http://[::1]:9/", skills: [] }
        ],
        mcp_servers: [{ name: "files", url: `${peer.url}/mcp` }]
      }
      const refused = yield* post(`${url}/plan`, body, by("ann"))
      assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "invalid_request"])
      const issues = refused.body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
      assert.deepStrictEqual(
        issues.filter(({ message }) => message.includes("host")).map(({ path }) => path),
        ["agents[0].endpoint", "agents[1].auth.token_url", "mcp_servers[0].url"]
      )
      assert.strictEqual(
        issues[0]?.message,
        'Expected a host that the permissions of the caller allow, got "127.0.0.1"'
      )
      assert.deepStrictEqual(yield* peer.requests.all, [])
      const { body: plan } = yield* post(`${url}/plan`, { question: "?", agents: [discovered] }, by("bob"))
      assert.strictEqual(plan["state"], "completed")
      assert.isNotEmpty(yield* peer.requests.all)
    }).pipe(isolated)
  )

  it.effect("name a host in any of its spellings", () =>
    Effect.gen(function* () {
      const deny = "['10.0.*', Peer.example., '0:0:0:0:0:0:0:1', '::ffff:7.7.7.7']"
      const { permissions } = yield* load("a.yaml", `permissions: { anonymous: { hosts: { deny: ${deny} } } }`)
      const { host } = permissions.forCaller(CallerName.make("anonymous"))
      const urls = [
        "http://10.0.0.7/",
        "http://[::ffff:10.0.0.7]/",
        "http://[64:ff9b::10.0.0.7]/",
        "http://0xa000007/",
        "http://PEER.example/",
        "http://[::1]/",
        "http://7.7.7.7./"
      ]
      assert.deepStrictEqual(
        urls.filter((url) => host(hostOf(url))),
        []
      )
      assert.isTrue(host(hostOf("http://[::ffff:10.1.0.7]/")))
    }).pipe(Effect.scoped)
  )

  it.live("refuse models as if they did not exist, and leave the operator's own alone", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* configured(
        "{ ann: { models: { allow: ['openai/a*'] } } }\nplans: { model: openai/main, allowed_models: ['openai/*'] }"
      )
      const ask = (model?: string) =>
        post(`${url}/plan`, { question: "?", preferences: model === undefined ? {} : { model } }, by("ann"))
      const denied = yield* ask("openai/b")
      const unknown = yield* ask("other/b")
      const issueOf = (answer: typeof denied) => JSON.stringify(answer.body["issues"])
      assert.deepStrictEqual([denied.status, issueOf(denied)], [400, issueOf(unknown).replace("other", "openai")])
      yield* ask("openai/a1")
      yield* ask()
      const asked = (yield* provider.requests.all).map(({ body }) => (JSON.parse(body) as { model: string }).model)
      assert.deepStrictEqual(asked, ["a1", "main"])
    }).pipe(isolated)
  )

  it.live("allow nothing to a caller without an entry, where there is none for others", () =>
    Effect.gen(function* () {
      const gateway = yield* configured("{ ann: {} }")
      const { agent, url } = gateway
      const refused = yield* post(`${url}/plan`, { question: "?", agents: [agent] }, by("bob"))
      assert.strictEqual(refused.status, 400)
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" }, by("bob"))).body["state"], "completed")
      yield* post(`${url}/plan`, { question: "?", agents: [agent] }, by("ann"))
      assert.deepStrictEqual(yield* offered(gateway), [[], ["rigger_pay", "rigger_ask"]])
    }).pipe(isolated)
  )

  it.effect("are the same for the one caller of an open gateway, and cover recipes", () =>
    Effect.gen(function* () {
      const { permissions } = yield* load(
        "a.yaml",
        "permissions: { anonymous: { recipes: { allow: ['{tie,untie}-*'], deny: ['*-secret'] } } }"
      )
      const { model, recipe } = permissions.forCaller(CallerName.make("anonymous"))
      assert.deepStrictEqual(["tie-knots", "untie-secret", "cook"].map(recipe), [true, false, false])
      assert.isTrue(model("openrouter/openai/gpt-5-mini"))
    }).pipe(Effect.scoped)
  )

  it.effect("are checked at start, with their paths", () =>
    Effect.gen(function* () {
      const text = `
permissions:
  ann: { tools: [a], host: { allow: [a] } }
  bob: { tools: {}, hosts: { allow: [] }, models: { deny: ["[a", "!b", 7] } }
  "b b": {}
  eve: {}
budgets: { ann: {}, eve: { tokens_per_day: 1 }, bob: { tokens_per_day: -1, calls: 2, tool_calls_per_day: 1.5 } }
`
      const glob =
        "Expected a glob such as weather_* or {clock,weather}_*, without a ! in front: deny names what is forbidden"
      assert.deepStrictEqual(yield* problems("bad.yaml", text, callers), [
        'bad.yaml permissions["b b"]: There is no such key',
        "bad.yaml permissions.ann.host: There is no such key. Did you mean hosts?",
        "bad.yaml permissions.ann.tools: Expected an object of allow and deny, which are lists of globs",
        "bad.yaml permissions.bob.tools: Expected allow, deny, or both of them",
        "bad.yaml permissions.bob.hosts.allow: Expected at least one glob",
        `bad.yaml permissions.bob.models.deny[0]: ${glob}`,
        `bad.yaml permissions.bob.models.deny[1]: ${glob}`,
        "bad.yaml permissions.bob.models.deny[2]: Expected string",
        "bad.yaml budgets.ann: Expected one of tokens_per_day, tool_calls_per_day, cost_usd_per_day, cost_usd_per_month, or several of them",
        "bad.yaml budgets.bob.calls: There is no such key",
        "bad.yaml budgets.bob.tokens_per_day: Expected a value between 0 and 1000000000000",
        "bad.yaml budgets.bob.tool_calls_per_day: Expected an integer"
      ])
      assert.deepStrictEqual(
        yield* problems(
          "bad.yaml",
          "permissions: { eve: {}, '*': {} }\nbudgets: { Ann: { tokens_per_day: 1 } }",
          callers
        ),
        [
          "bad.yaml permissions.eve: Expected the name of a caller, or * for all others: ann, bob, cid; or key:<name> for one whose key an admin makes",
          "bad.yaml budgets.Ann: Expected the name of a caller, or * for all others: ann, bob, cid; or key:<name> for one whose key an admin makes"
        ]
      )
      const hosts = [
        "http://a.example",
        "a.example:80",
        "10.0.0.0/8",
        "[::1]",
        "a.example",
        "fd00:*",
        "::1",
        "[ab].example"
      ]
      assert.deepStrictEqual(
        yield* problems("bad.yaml", `permissions: { "*": { hosts: { deny: ${JSON.stringify(hosts)} } } }`, callers),
        [0, 1, 2, 3].map(
          (index) =>
            `bad.yaml permissions["*"].hosts.deny[${index}]: Expected a glob of hosts such as *.agents.example, 10.0.* or fd00:*, without scheme, port, path and brackets`
        )
      )
      assert.deepStrictEqual(yield* problems("bad.yaml", "permissions: {}", callers), [
        "bad.yaml permissions: Expected at least one caller"
      ])
    }).pipe(Effect.scoped)
  )
})
