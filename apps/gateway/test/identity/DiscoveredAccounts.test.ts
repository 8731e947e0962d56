import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { type Host, json, text } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { decodeJwt } from "jose"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer, type AddressInfo } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Configuration } from "oidc-provider"
import { problems, folderOf } from "../config/file/ConfigFolder.ts"
import { payloads, post, send, start, stores } from "../http/RunningGateway.ts"
import { dump } from "../plan/Databases.ts"
import { makeBrowser } from "./Browser.ts"
import { newKey, serve } from "./OpenIdProvider.ts"

const ann = { authorization: "Bearer key-of-ann" }
const secretKey = Buffer.alloc(32, 7).toString("base64")
const environment = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob",
  BOWLINE_SECRET_KEY: secretKey,
  BOWLINE_SHUTDOWN_GRACE: "0s"
}

/** A port that nobody has now: an authorization server has to know the gateway's own URL. */
const freePort = Effect.promise(async () => {
  const server = createServer()
  await once(server.listen(0, "127.0.0.1"), "listening")
  const { port } = server.address() as AddressInfo
  await new Promise((closed) => server.close(closed))
  return port
})

/** The link of the plan that waits for an account. */
const linkAt = (url: string) =>
  send(`${url}/waiting?kind=account`, { headers: ann }).pipe(
    Effect.repeat({
      until: ({ body }) => (body["waiting"] as ReadonlyArray<unknown>).length > 0,
      schedule: Schedule.spaced("20 millis")
    }),
    Effect.map(({ body }) => {
      const [{ url: link }] = body["waiting"] as readonly [{ readonly url: string }]
      return link
    })
  )

const calling =
  (tool: string, input: object): Script =>
  (asked) =>
    results(asked).length === 0 ? [callTool(tool, input)] : [say("done")]

const example = fileURLToPath(import.meta.resolve("mcp-sdk-1/examples/server/simpleStreamableHttp.js"))

/** The example of the official SDK: an MCP server, and its authorization server beside it. */
const serveExample = Effect.gen(function* () {
  const [port, authPort] = [yield* freePort, yield* freePort]
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [example, "--oauth-strict", "--oauth"], {
        env: { PATH: process.env["PATH"], MCP_PORT: String(port), MCP_AUTH_PORT: String(authPort) },
        stdio: ["ignore", "pipe", "inherit"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  yield* Effect.callback<void>((resume) => {
    let said = ""
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString()
      const isUp = [port, authPort].every((one) => said.includes(`listening on port ${one}`))
      if (isUp) resume(Effect.void)
    })
  })
  return { url: `http://localhost:${port}/mcp`, authUrl: `http://localhost:${authPort}` }
})

/** An MCP server that lists its tools to everybody, and an agent: calls of both need a token of the provider for them. */
const serveTools = Effect.fnUntraced(function* (issuer: string) {
  const network = yield* Network
  const calls: Array<string> = []
  const place = { url: "" }
  const host: Host = ({ body, headers, method, url }) => {
    const resource = `${place.url}${url.pathname.replace("/.well-known/oauth-protected-resource", "")}`
    if (url.pathname.startsWith("/.well-known/oauth-protected-resource")) {
      return Effect.succeed(json(200, { resource, authorization_servers: [issuer], scopes_supported: ["pay"] }))
    }
    if (method !== "POST") return Effect.succeed(text(405, ""))
    const request = JSON.parse(body) as { readonly id?: number; readonly method: string }
    const result = (result: object) => json(200, { jsonrpc: "2.0", id: request.id, result })
    const isCall = request.method === "tools/call" || request.method === "message/send"
    const token = (headers["authorization"] ?? "").replace("Bearer ", "")
    if (isCall) {
      if (token === "" || decodeJwt(token).aud !== resource) {
        const metadata = `${place.url}/.well-known/oauth-protected-resource${url.pathname}`
        const challenge = `Bearer error="invalid_token", resource_metadata="${metadata}"`
        return Effect.succeed(text(401, "", { "www-authenticate": challenge }))
      }
      calls.push(token)
    }
    switch (request.method) {
      case "initialize":
        return Effect.succeed(
          result({
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "t", version: "1" }
          })
        )
      case "tools/list":
        return Effect.succeed(result({ tools: [{ name: "pay", inputSchema: { type: "object" } }] }))
      case "tools/call":
        return Effect.succeed(result({ content: [{ type: "text", text: "paid" }] }))
      case "message/send":
        return Effect.succeed(
          result({ kind: "message", role: "agent", messageId: "m", parts: [{ kind: "text", text: "paid" }] })
        )
      default:
        return Effect.succeed(request.id === undefined ? text(202, "") : text(400, ""))
    }
  }
  place.url = (yield* network.serve(host)).url
  return { url: place.url, calls }
})

/** What the provider is besides: clients register, tokens are for one resource, and refresh tokens are given to those who have agreed. */
const registering = {
  scopes: ["openid", "offline_access", "pay"],
  clients: [],
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_: unknown, audience: string) => ({
        audience,
        accessTokenFormat: "jwt",
        accessTokenTTL: 30,
        scope: "pay",
        jwt: { sign: { alg: "RS256" } }
      })
    }
  }
} satisfies Configuration

const account = { type: "account", account: "own" }

describe("an account that the configuration does not name", () => {
  it.live("is granted at the authorization server of the official SDK's example, whose tools the plan has then", () =>
    Effect.gen(function* () {
      const { authUrl, url } = yield* serveExample
      const port = yield* freePort
      const folder = yield* folderOf({
        "gateway.json": JSON.stringify({
          accounts_discovered: true,
          mcp_servers: [{ name: "demo", url, auth: account, required: true }]
        })
      })
      const gateway = yield* start(calling("demo_greet", { name: "Ann" }), {
        ...environment,
        BOWLINE_CONFIG: join(folder, "gateway.json"),
        BOWLINE_PORT: String(port)
      })
      const asked = yield* Effect.forkChild(post(`${gateway.url}/plan`, { question: "?" }, ann))
      const link = yield* linkAt(gateway.url)
      const browser = makeBrowser()
      const shown = yield* Effect.flatMap(browser.get(link), (page) => Effect.promise(() => page.text()))
      for (const said of [
        "ann",
        "demo",
        url,
        new URL(authUrl).host,
        "<code>mcp:tools</code>",
        "Nobody has configured"
      ]) {
        assert.include(shown, said)
      }
      const page = yield* browser.follow(link)
      assert.include(page.text, "is connected", `${page.url} ${page.status}`)
      const away = new URL(browser.visited.find((at) => at.startsWith(`${authUrl}/authorize`)) ?? "")
      assert.deepInclude(Object.fromEntries(away.searchParams), {
        code_challenge_method: "S256",
        resource: url,
        scope: "mcp:tools"
      })
      const { body } = yield* Fiber.join(asked)
      assert.strictEqual(body["state"], "completed", JSON.stringify(body))
      const { text: said } = yield* send(`${gateway.url}/plans/${String(body["plan_id"])}/events`, { headers: ann })
      const first = (event: string) => payloads(said, event)[0] as Readonly<Record<string, unknown>>
      assert.deepInclude(first("waiting"), { kind: "account", task_id: null, tool: null, agent: "demo" })
      assert.deepInclude(first("task.finished"), { state: "completed" }, said)
      assert.include(said, "Hello, Ann")

      const { body: listed } = yield* send(`${gateway.url}/accounts`, { headers: ann })
      const [granted] = listed["accounts"] as ReadonlyArray<Readonly<Record<string, unknown>>>
      assert.deepInclude(granted, { name: url, scopes: ["mcp:tools"] })
      const own = `${gateway.url}/accounts/${encodeURIComponent(url)}`
      assert.strictEqual((yield* send(own, { method: "DELETE", headers: ann })).status, 204)
      assert.strictEqual((yield* send(own, { method: "DELETE", headers: ann })).status, 404)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is registered for once, granted on another replica, and good for its own server or agent alone", () =>
    Effect.gen(function* () {
      const store = yield* stores.postgres
      const provider = yield* serve([yield* newKey("one")], registering)
      const tools = yield* serveTools(provider.issuer)
      const port = yield* freePort
      const folder = yield* folderOf({
        "gateway.json": JSON.stringify({
          accounts_discovered: true,
          mcp_servers: [{ name: "till", url: `${tools.url}/mcp`, auth: account }]
        })
      })
      const publicUrl = `http://127.0.0.1:${port}`
      const settings = {
        ...environment,
        ...store,
        BOWLINE_PUBLIC_URL: publicUrl,
        BOWLINE_CONFIG: join(folder, "gateway.json")
      }
      const one = yield* start(calling("till_pay", {}), settings)
      const other = yield* start(calling("purse_pay", { input: "7" }), { ...settings, BOWLINE_PORT: String(port) })
      const asked = yield* Effect.forkChild(post(`${one.url}/plan`, { question: "?" }, ann))
      const link = yield* linkAt(one.url)
      assert.strictEqual(new URL(link).origin, publicUrl)
      const registrations = () => provider.requests.filter((path) => path === "/reg").length
      assert.deepStrictEqual([registrations(), tools.calls], [1, []])

      // The answer of another server than the one to which the browser was sent.
      const mixed = makeBrowser()
      const left = yield* mixed.get(link, { method: "POST" })
      const away = new URL(left.headers.get("location") ?? "")
      const back = new URL(away.searchParams.get("redirect_uri") ?? "")
      assert.match(back.pathname, /^\/accounts\/callback\/[\w-]{22}$/)
      const said = new URLSearchParams({ code: "c", state: away.searchParams.get("state") ?? "", iss: provider.issuer })
      const elsewhere = new URL(`/accounts/callback/${"x".repeat(22)}?${String(said)}`, back)
      assert.strictEqual((yield* mixed.get(elsewhere.href)).status, 401)
      assert.notInclude(provider.requests, "/token")

      const browser = makeBrowser()
      const page = yield* browser.follow(yield* linkAt(one.url))
      assert.include(page.text, "is connected", `${page.url} ${page.status} ${page.text}`)
      const { body } = yield* Fiber.join(asked)
      assert.strictEqual(body["state"], "completed", JSON.stringify(body))
      assert.deepStrictEqual(
        tools.calls.map((token) => decodeJwt(token).aud),
        [`${tools.url}/mcp`]
      )

      // A token of 30 s is renewed for each call, as the client that it was given to.
      const plan = {
        question: "?",
        agents: [
          { name: "purse", endpoint: `${tools.url}/purse`, dialect: "a2a-0.3", skills: [{ id: "pay" }], auth: account }
        ]
      }
      assert.strictEqual((yield* post(`${one.url}/plan`, { question: "?" }, ann)).body["state"], "completed")
      // An agent at the same origin has an account of its own.
      const agent = yield* Effect.forkChild(post(`${other.url}/plan`, plan, ann))
      const own = makeBrowser()
      assert.include((yield* own.follow(yield* linkAt(one.url))).text, "is connected")
      assert.strictEqual((yield* Fiber.join(agent)).body["state"], "completed")
      assert.deepStrictEqual(
        tools.calls.slice(1).map((token) => decodeJwt(token).aud),
        [`${tools.url}/mcp`, `${tools.url}/purse`]
      )
      assert.strictEqual(registrations(), 1)

      const listed = yield* send(`${other.url}/accounts`, { headers: ann })
      const names = (listed.body["accounts"] as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)
      assert.deepStrictEqual(names, [`${tools.url}/mcp`, `${tools.url}/purse`])
      assert.deepStrictEqual(
        (yield* send(`${other.url}/accounts`, { headers: { authorization: "Bearer key-of-bob" } })).body,
        { accounts: [] }
      )
      const everything = [...(yield* dump(store.DATABASE_URL)).values(), browser.visited.join()].join()
      for (const secret of [...tools.calls, "client_secret"]) assert.notInclude(everything, secret)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("needs no registration where the server reads what the gateway says of itself", () =>
    Effect.gen(function* () {
      const publicUrl = "https://gateway.test"
      let reached = ""
      const reach = (url: string) => url.replace(publicUrl, reached)
      const provider = yield* serve([yield* newKey("one")], {
        ...registering,
        // Its own way would refuse the loopback address.
        fetch: (url, options) =>
          fetch(reach(url instanceof Request ? url.url : url.toString()), { headers: new Headers(options?.headers) }),
        features: {
          ...registering.features,
          clientIdMetadataDocument: { enabled: true, ack: "draft-02" }
        }
      })
      const tools = yield* serveTools(provider.issuer)
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ accounts_discovered: true }) })
      const gateway = yield* start(calling("till_pay", {}), {
        ...environment,
        BOWLINE_PUBLIC_URL: publicUrl,
        BOWLINE_PUBLIC_HOSTS: "gateway.test",
        BOWLINE_CONFIG: join(folder, "gateway.json")
      })
      reached = gateway.url
      const plan = { question: "?", mcp_servers: [{ name: "till", url: `${tools.url}/mcp`, auth: account }] }
      const asked = yield* Effect.forkChild(post(`${gateway.url}/plan`, plan, ann))
      const browser = makeBrowser(reach)
      const page = yield* browser.follow(yield* linkAt(gateway.url))
      assert.include(page.text, "is connected", `${page.url} ${page.status} ${page.text}`)
      assert.strictEqual((yield* Fiber.join(asked)).body["state"], "completed")
      assert.notInclude(provider.requests, "/reg")
      const away = new URL(browser.visited.find((at) => at.startsWith(`${provider.issuer}/auth`)) ?? "")
      assert.match(away.searchParams.get("client_id") ?? "", /^https:\/\/gateway\.test\/accounts\/client\/[\w-]{22}$/)
      const { body } = yield* send(`${gateway.url}/accounts/client`)
      assert.deepInclude(body, {
        client_id: `${publicUrl}/accounts/client`,
        redirect_uris: [`${publicUrl}/accounts/callback`]
      })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("fails the call, or costs the server, where nothing can be found out", () =>
    Effect.gen(function* () {
      // Nobody may make the gateway ask the metadata service of its cloud.
      const tools = yield* serveTools("https://169.254.169.254")
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ accounts_discovered: true }) })
      const gateway = yield* start(calling("till_pay", {}), {
        ...environment,
        BOWLINE_CONFIG: join(folder, "gateway.json")
      })
      const plan = { question: "?", mcp_servers: [{ name: "till", url: `${tools.url}/mcp`, auth: account }] }
      const { body } = yield* post(`${gateway.url}/plan`, plan, ann)
      const events = yield* send(`${gateway.url}/plans/${String(body["plan_id"])}/events`, { headers: ann })
      const [finished] = payloads(events.text, "task.finished") as ReadonlyArray<Readonly<Record<string, unknown>>>
      assert.deepInclude(finished, { state: "failed" })
      assert.deepInclude(finished?.["error"], { code: "egress_denied" })
      const long = { ...plan, mcp_servers: [{ name: "till", url: `${tools.url}/${"x".repeat(1_000)}`, auth: account }] }
      const refused = yield* post(`${gateway.url}/plan`, long, ann)
      assert.deepStrictEqual(refused.body["issues"], [
        {
          path: "mcp_servers[0].auth.account",
          message: "Expected a URL of at most 1000 characters, since its account is called so"
        }
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is checked with the file: clients, and a key that encrypts", () =>
    Effect.gen(function* () {
      const server = { issuer: "https://id.test", scopes: [] }
      const file = {
        accounts_discovered: true,
        accounts: {
          both: { ...server, client_id: "x", client_metadata_url: "https://gateway.test/accounts/client" },
          none: server,
          plain: { ...server, client_metadata_url: "http://gateway.test/accounts/client" },
          good: { ...server, client_metadata_url: "https://gateway.test/accounts/client" }
        },
        agents: [{ name: "a", endpoint: "https://a.test/", auth: { type: "account", account: "anything" } }]
      }
      const found = yield* problems("gateway.json", JSON.stringify(file), {
        OPENAI_API_KEY: "key",
        BOWLINE_SECRET_KEY: secretKey
      })
      assert.sameMembers(found, [
        "gateway.json accounts.both.client_id: Expected either it or client_metadata_url",
        "gateway.json accounts.none.client_id: Expected either it or client_metadata_url",
        "gateway.json accounts.plain.client_metadata_url: Expected an https URL with a path"
      ])
      assert.deepStrictEqual(
        yield* problems("gateway.json", JSON.stringify({ accounts_discovered: true }), { OPENAI_API_KEY: "key" }),
        [
          "gateway.json accounts_discovered: Expected it with BOWLINE_SECRET_KEY (plans.secret_key in the file), which encrypts what acts as callers"
        ]
      )
    }).pipe(Effect.scoped)
  )
})
