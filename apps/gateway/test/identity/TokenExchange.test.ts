import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { decodeJwt } from "jose"
import { join } from "node:path"
import { folderOf, problems } from "../config/file/ConfigFolder.ts"
import { payloads, post, send, start } from "../http/RunningGateway.ts"
import { databases, dump } from "../plan/Databases.ts"
import { audience, newKey, serve, service, sign } from "./OpenIdProvider.ts"

const seconds = () => Math.floor(Date.now() / 1_000)
const secretKey = Buffer.alloc(32, 7).toString("base64")
const environment = {
  BOWLINE_API_KEYS: "ann=key-of-ann",
  BOWLINE_SHUTDOWN_GRACE: "0s",
  BOWLINE_SECRET_KEY: secretKey,
  BOWLINE_ENV_ALLOW: "DESK_SECRET",
  DESK_SECRET: service.client_secret
}

/** Calls the peer's skill, then the server's tool, then answers. */
const script: Script = (asked) => {
  const [first, second] = ["rigger_pay", "shop_find"]
  if (results(asked).length === 0) return [callTool(first ?? "", { input: "7" })]
  return results(asked).length === 1 ? [callTool(second ?? "", {})] : [say("done")]
}

const bearerOf = (headers: Readonly<Record<string, string | undefined>>) =>
  (headers["authorization"] ?? "").replace("Bearer ", "")

/** Who a request says that it is made as, and for whom it is. */
const subjectOf = (headers: Readonly<Record<string, string | undefined>>) => {
  const { aud, sub } = decodeJwt(bearerOf(headers))
  return [sub, aud]
}

/** A gateway that takes the provider's tokens, a peer and an MCP server that are called as the caller. */
const given = Effect.fnUntraced(function* (more: Readonly<Record<string, string>> = {}, told: Script = script) {
  const key = yield* newKey("one")
  const provider = yield* serve([key])
  const tool = { name: "find", inputSchema: { type: "object" } }
  const peer = yield* ScriptedPeer.serve({ acts: [completes("paid")] })
  const server = yield* ScriptedMcpServer.serve({
    list: () => ({ tools: [tool] }),
    call: (request) => Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "found" }] }))
  })
  const called = Effect.map(server.requests, (all) =>
    all.filter(({ body }) => body.includes("tools/call")).map(({ headers }) => headers)
  )
  const auth = {
    type: "token_exchange",
    token_url: `${provider.issuer}/token`,
    client_id: service.client_id,
    client_secret_env_var: "DESK_SECRET"
  }
  const rigger = {
    name: "rigger",
    endpoint: `${peer.url}/`,
    dialect: "a2a-0.3",
    skills: [{ id: "pay" }],
    auth: { ...auth, audience: "https://rigger.test/" }
  }
  const shop = { name: "shop", url: server.url, auth: { ...auth, audience: "https://shop.test/" } }
  const admin = { claim: "role", equals: "admin" }
  const issuer = { name: "corp", issuer: provider.issuer, audience, admin }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ auth: { jwt: [issuer] } }) })
  const replica = start(told, { ...environment, BOWLINE_CONFIG: join(folder, "gateway.json"), ...more })
  const gateway = yield* replica
  const tokenOf = (sub: string, claims: object = {}) =>
    sign(key, { iss: provider.issuer, aud: audience, sub, exp: seconds() + 600, ...claims })
  const ask = (token: string, body: object = { agents: [rigger], mcp_servers: [shop] }) =>
    post(`${gateway.url}/plan`, { question: "?", ...body }, { authorization: `Bearer ${token}` })
  return { ...gateway, replica, oidc: provider, peer, called, rigger, shop, tokenOf, ask }
})

describe("token_exchange", () => {
  it.live("calls peers and servers as the caller of the plan, whose own token no one else gets", () =>
    Effect.gen(function* () {
      const database = yield* databases.postgres
      const { ask, called, oidc, peer, provider, tokenOf, url } = yield* given(database)
      const [alice, bob] = [yield* tokenOf("alice"), yield* tokenOf("bob")]
      const plans = yield* Effect.all([ask(alice), ask(bob)], { concurrency: "unbounded" })
      for (const { body, status } of plans) {
        assert.deepStrictEqual([status, body["state"]], [200, "completed"], JSON.stringify(body))
      }
      const toPeer = (yield* peer.requests.all).filter(({ method }) => method === "POST")
      assert.sameDeepMembers(
        toPeer.map(({ headers }) => subjectOf(headers)),
        [
          ["alice", "https://rigger.test/"],
          ["bob", "https://rigger.test/"]
        ]
      )
      const toServer = yield* called
      assert.sameDeepMembers(toServer.map(subjectOf), [
        ["alice", "https://shop.test/"],
        ["bob", "https://shop.test/"]
      ])
      // One for each caller and audience.
      assert.strictEqual(oidc.requests.filter((path) => path === "/token").length, 4)

      const told = [...toPeer, ...toServer, ...(yield* provider.requests.all)].map((request) => JSON.stringify(request))
      const kept = Array.from((yield* dump(database.DATABASE_URL)).values())
      const shown = yield* Effect.forEach(plans, ({ body }) =>
        send(`${url}/plans/${String(body["plan_id"])}`, { headers: { authorization: "Bearer key-of-ann" } })
      )
      const everything = [...told, ...kept, JSON.stringify(plans), JSON.stringify(shown)].join()
      for (const token of [alice, bob]) assert.notInclude(everything, token)
      for (const headers of [...toServer, ...toPeer.map(({ headers }) => headers)]) {
        assert.notInclude([...kept, JSON.stringify(plans)].join(), bearerOf(headers))
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("acts as the caller of the plan, also where an admin's request has started it", () =>
    Effect.gen(function* () {
      const pays: Script = (asked) => {
        if (results(asked).length > 0 || question(asked) !== "pay") return [say("done")]
        return [callTool("rigger_pay", { input: "7" })]
      }
      const { ask, peer, rigger, tokenOf, url } = yield* given({}, pays)
      const admin = yield* tokenOf("root", { role: "admin", exp: seconds() + 900 })
      const { body } = yield* ask(yield* tokenOf("alice"), { agents: [rigger], session_id: "s" })
      const inbox = `${url}/plans/${String(body["plan_id"])}/inbox`
      const moved = yield* post(inbox, { type: "text", text: "pay" }, { authorization: `Bearer ${admin}` })
      assert.deepInclude(moved.body, { moved: true }, moved.text)
      yield* peer.awaitSeen(({ sends }) => sends.length === 1)
      const called = (yield* peer.requests.all).filter(({ method }) => method === "POST")
      assert.deepStrictEqual(
        called.map(({ headers }) => subjectOf(headers)),
        [["alice", "https://rigger.test/"]]
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live(
    "waits where the caller's token is over, and goes on when the caller comes to any route of another replica",
    () =>
      Effect.gen(function* () {
        const { ask, called, oidc, peer, replica, rigger, shop, tokenOf, url } = yield* given(yield* databases.postgres)
        const other = yield* replica
        // Good enough to ask with, by the leeway. No token is exchanged that is over.
        const late = yield* tokenOf("alice", { exp: seconds() - 5 })
        const asked = yield* Effect.forEach([{ agents: [rigger] }, { mcp_servers: [shop] }], (body) =>
          Effect.forkChild(ask(late, body))
        )
        const root = yield* tokenOf("root", { role: "admin" })
        const admin = { headers: { authorization: `Bearer ${root}` } }
        const waiting = send(`${other.url}/waiting?kind=account&caller=corp:alice`, admin).pipe(
          Effect.map(({ body }) => body["waiting"] as ReadonlyArray<Readonly<Record<string, unknown>>>)
        )
        const waits = yield* Effect.repeat(waiting, {
          until: (all) => all.length === 2,
          schedule: Schedule.spaced("50 millis")
        })
        assert.sameDeepMembers(
          waits.map(({ agent, caller, kind, tool }) => [agent, caller, kind, tool]),
          [
            ["rigger", "corp:alice", "account", "rigger_pay"],
            ["shop", "corp:alice", "account", "shop"]
          ]
        )
        assert.deepStrictEqual([yield* called, oidc.requests.filter((path) => path === "/token")], [[], []])
        // Another caller wakes nothing.
        const come = (token: string) =>
          send(`${other.url}/plans?limit=1`, { headers: { authorization: `Bearer ${token}` } })
        yield* come(yield* tokenOf("bob"))
        assert.lengthOf(yield* waiting, 2)
        const alice = yield* tokenOf("alice")
        yield* come(alice)
        for (const fiber of asked) {
          const { body } = yield* Fiber.join(fiber)
          assert.strictEqual(body["state"], "completed", JSON.stringify(body))
          const { text } = yield* send(`${url}/plans/${String(body["plan_id"])}/events`, {
            headers: { authorization: `Bearer ${alice}` }
          })
          const [wait] = payloads(text, "waiting") as ReadonlyArray<object>
          assert.deepInclude(wait, { kind: "account", round: 1 })
        }
        const toPeer = (yield* peer.requests.all).filter(({ method }) => method === "POST")
        assert.deepStrictEqual(
          [...toPeer.map(({ headers }) => headers), ...(yield* called)].map((headers) => subjectOf(headers)[0]),
          ["alice", "alice"]
        )
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is refused before the plan for a caller with a key, and the refusal names the agent", () =>
    Effect.gen(function* () {
      const { ask, peer, rigger, shop } = yield* given()
      const { body, status } = yield* ask("key-of-ann", { agents: [rigger] })
      assert.strictEqual(status, 400)
      assert.deepStrictEqual(body["issues"], [
        {
          path: "agents[0].auth.type",
          message:
            "Expected a caller with a token of an identity provider, since rigger is called as the caller: ann has none"
        }
      ])
      const ofServer = yield* ask("key-of-ann", { mcp_servers: [shop] })
      assert.include(ofServer.text, "mcp_servers[0].auth.type")
      assert.deepStrictEqual(yield* peer.requests.all, [])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is refused without a key that encrypts what acts as callers: in a request, and in the file", () =>
    Effect.gen(function* () {
      const { ask, rigger, tokenOf } = yield* given({ BOWLINE_SECRET_KEY: "" })
      const { status, text } = yield* ask(yield* tokenOf("alice"), { agents: [rigger] })
      assert.strictEqual(status, 400)
      assert.include(text, "BOWLINE_SECRET_KEY (plans.secret_key in the file) is not set")
      const auth = { type: "token_exchange", token_url: "https://login.test/token" }
      const file = {
        agents: [{ name: "rigger", endpoint: "https://rigger.test/", auth }],
        presets: { sail: { mcp_servers: [{ name: "shop", url: "https://shop.test/", auth }] } }
      }
      const found = yield* problems("gateway.json", JSON.stringify(file), { OPENAI_API_KEY: "key" })
      const expected =
        "Expected it with BOWLINE_SECRET_KEY (plans.secret_key in the file), which encrypts what acts as callers"
      assert.deepStrictEqual(found, [
        `gateway.json agents[0].auth.type: ${expected}`,
        `gateway.json presets.sail.mcp_servers[0].auth.type: ${expected}`
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )
})
