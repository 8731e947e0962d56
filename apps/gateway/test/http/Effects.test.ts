import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces } from "@bowline/testing/peer/Act"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })

const script: Parameters<typeof start>[0] = (asked) =>
  results(asked).length === 0 ? [callTool("bank_pay", { order: "7" })] : [say(results(asked).join())]

const schema = { type: "object", properties: { order: { type: "string" } } }

const bankAt = (url: string, effect?: object) => ({
  name: "bank",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "pay", input_schema: schema, ...(effect !== undefined && { effect }) }]
})

/** A bank that pays at once, and a gateway in front of it. */
const withBank = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>) {
  const bank = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
  const { url } = yield* start(script, environment)
  const sent = Effect.map(bank.requests.all, (all) => all.filter(({ body }) => body.includes("message/")))
  return { url, bank, sent }
}, Effect.provide(LoopbackNetwork.layer))

const byOrder = { key: ["/order"], scope: "caller" }

describe("effects", () => {
  it.live("are made once for their caller, who sees them, and admins forget one", () =>
    Effect.gen(function* () {
      const { bank, sent, url } = yield* withBank(callers)
      const ask = (name: string) =>
        post(`${url}/plan`, { question: "?", agents: [bankAt(bank.url, byOrder)] }, by(name))
      const listed = Effect.fnUntraced(function* (name: string, query = "") {
        const { body } = yield* send(`${url}/effects${query}`, { headers: by(name) })
        return body["effects"] as ReadonlyArray<Readonly<Record<string, unknown>>>
      })
      const { body: first } = yield* ask("ann")
      yield* ask("ann")
      assert.lengthOf(yield* sent, 1)
      const [effect, ...more] = yield* listed("ann")
      assert(effect !== undefined)
      assert.deepStrictEqual(more, [])
      const { claimed_at, effect_id, expires_at, task_id } = effect
      assert.deepInclude(effect, { tool: "bank_pay", state: "done", plan_id: first["plan_id"] })
      assert.strictEqual(effect_id, `effect_${String(task_id)}`)
      assert.strictEqual(Date.parse(String(expires_at)) - Date.parse(String(claimed_at)), 30 * 86_400_000)
      assert.deepStrictEqual(yield* listed("ann", "?tool=bank_refund"), [])
      assert.lengthOf(yield* listed("ann", `?since=${String(claimed_at)}&limit=1`), 1)
      assert.strictEqual((yield* send(`${url}/effects?since=yesterday`, { headers: by("ann") })).status, 400)

      assert.deepStrictEqual(yield* listed("bob"), [])
      yield* ask("bob")
      assert.lengthOf(yield* sent, 2)

      const forget = (name: string, id = effect_id) =>
        send(`${url}/effects/${String(id)}`, { method: "DELETE", headers: by(name) })
      assert.strictEqual((yield* forget("ann")).status, 403)
      assert.strictEqual((yield* forget("root")).status, 204)
      assert.strictEqual((yield* forget("root")).status, 404)
      assert.strictEqual((yield* forget("root", "effect_x")).status, 404)
      yield* ask("ann")
      const [anns, bobs, again] = (yield* sent).map(({ headers }) => headers["idempotency-key"])
      assert.strictEqual(again, anns)
      assert.notStrictEqual(bobs, anns)
    })
  )

  it.live("of a tool of an MCP server are declared beside the server, and its calls carry their key", () =>
    Effect.gen(function* () {
      const server = yield* ScriptedMcpServer.serve({
        list: () => ({ tools: [{ name: "pay", inputSchema: schema }] }),
        call: (request) =>
          Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "paid" }] }))
      })
      const { url } = yield* start(script)
      const bank = { name: "bank", url: `${server.url}/mcp`, effects: { pay: byOrder } }
      for (const _ of [1, 2]) yield* post(`${url}/plan`, { question: "?", mcp_servers: [bank] })
      const calls = (yield* server.requests).filter(({ body }) => body.includes('"tools/call"'))
      const [call] = calls
      assert.lengthOf(calls, 1)
      const { params } = JSON.parse(call?.body ?? "{}") as {
        readonly params: { readonly _meta: Readonly<Record<string, string>> }
      }
      const key = params._meta["bowline/idempotency_key"]
      assert.match(key ?? "", /^[0-9a-f]{64}$/)
      assert.strictEqual(call?.headers["idempotency-key"], key)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("are declared by the operator for tools that say nothing", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({
        "gateway.json": JSON.stringify({ tools: { concurrency: 4, effects: { "bank_*": byOrder } } })
      })
      const { bank, sent, url } = yield* withBank({ BOWLINE_CONFIG: join(folder, "gateway.json") })
      for (const _ of [1, 2]) yield* post(`${url}/plan`, { question: "?", agents: [bankAt(bank.url)] })
      assert.lengthOf(yield* sent, 1)
    })
  )

  it.live("are refused where they say nothing", () =>
    Effect.gen(function* () {
      const { bank, url } = yield* withBank({})
      const pathsOf = Effect.fnUntraced(function* (body: object) {
        const answer = yield* post(`${url}/plan`, { question: "?", ...body })
        assert.strictEqual(answer.status, 400)
        return (answer.body["issues"] as ReadonlyArray<{ readonly path: string }>).map(({ path }) => path)
      })
      const agents = [bankAt(bank.url, { key: ["order"], scope: "world" })]
      assert.deepStrictEqual((yield* pathsOf({ agents })).toSorted(), [
        "agents[0].skills[0].effect.key[0]",
        "agents[0].skills[0].effect.scope"
      ])
      const server = {
        name: "desk",
        url: "http://desk.test/mcp",
        effects: { pay: { key: "arguments", scope: "caller", keep: "1y" } }
      }
      assert.deepStrictEqual(yield* pathsOf({ mcp_servers: [server] }), ["mcp_servers[0].effects.pay.keep"])
      const folder = yield* folderOf({
        "gateway.json": JSON.stringify({ tools: { effects: { pay: { key: "all" } } } })
      })
      const failure = yield* Effect.flip(start(script, { BOWLINE_CONFIG: join(folder, "gateway.json") }))
      const problems = failure._tag === "InvalidConfiguration" ? failure.problems : []
      assert.match(JSON.stringify(problems), /"tools","effects","pay"/)
    })
  )
})
