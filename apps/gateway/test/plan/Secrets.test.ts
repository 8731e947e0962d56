import { PlanId } from "@bowline/domain/plan/Plan"
import * as StoredRequest from "@bowline/runtime/unstable/store/StoredRequest"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { type Host, json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { completes, fails, says, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { type Script, question } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, errorChunk, noFinish, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Option, Redacted, Result } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import * as Collector from "../telemetry/Collector.ts"
import { eventsOf, post, send } from "../http/RunningGateway.ts"
import { databases, dump, keptRequests } from "./Databases.ts"
import { bowline, start } from "./GatewayProcess.ts"

const mark = "planted-secret"
const planted = {
  ann: `${mark}-of-ann`,
  bob: `${mark}-of-bob`,
  stranger: `${mark}-of-nobody`,
  refused: `${mark}-key-refused`,
  taken: `${mark}-key-taken`,
  overruled: `${mark}-key-overruled`,
  inline: `${mark}-token-inline`,
  variable: `${mark}-token-variable`,
  wrong: `${mark}-token-wrong`,
  invalid: `${mark}-token-invalid`,
  endpoint: `${mark}-query-of-agent`,
  client: `${mark}-of-client`,
  collector: `${mark}-of-collector`,
  provider: `${mark}-key-in-file`,
  header: `${mark}-header-of-provider`,
  user: `${mark}-user-of-provider`,
  query: `${mark}-query-of-provider`,
  server: `${mark}-token-of-server`,
  serverHeader: `${mark}-header-of-server`,
  command: `${mark}-variable-of-command`,
  argument: `${mark}-argument-of-command`,
  granted: `${mark}-token-granted`,
  // As long as a seed has to be.
  seed: `${mark}-of-gateway-did`.padEnd(32, "."),
  key: `${mark}-of-kept-secrets`.padEnd(32, ".")
}
const seed = Buffer.from(planted.seed)
const secretKey = Buffer.from(planted.key)
const clientId = "the-client"

/** What is planted, and what it looks like where it is sent, or set. */
const marks = [
  mark,
  seed.toString("base64"),
  seed.toString("hex"),
  secretKey.toString("base64"),
  secretKey.toString("hex"),
  Buffer.from(`${clientId}:${planted.client}`).toString("base64")
]

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const sse = { accept: "text/event-stream" }

/** The second key is taken. A server may repeat what it was sent. */
const refusing =
  (host: Host): Host =>
  (request) =>
    request.headers["authorization"] === `Bearer ${planted.taken}`
      ? host(request)
      : Effect.succeed(json(401, { error: { message: `Incorrect API key provided: ${planted.refused}` } }))

/** Repeats all that it was sent. */
const echo: Host = ({ body, headers, url }) =>
  Effect.succeed(json(400, { error: { message: `${url.href} ${JSON.stringify(headers)} ${body}`, code: 400 } }))

const complain = "console.error(process.env.API_KEY, process.argv); process.exit(1)"
/** The providers and servers of the operator's own that repeat what they are given. */
const fileOf = (echoing: string) => `
providers:
  - name: other
    wire: openai-chat
    base_url: ${echoing.replace("://", `://u:${planted.user}@`)}/v1?key=${planted.query}
    api_keys: [${planted.provider}]
    headers: { x-extra: ${planted.header} }
    models: { echo: { context_window: 100000 } }
mcp_servers:
  - { name: complains, command: node, args: [-e, "${complain}", --token, ${planted.argument}], env: { API_KEY: ${planted.command} } }
`

let attempts = 0
const script: Script = (asked) => {
  const input = { input: "?" }
  switch (question(asked)) {
    case "all":
      if (asked.messages.some(({ role }) => role === "tool")) return [say("done")]
      return ["inline", "variable", "broken", "locked", "signed", "granted", "denied"].map((agent) =>
        callTool(`${agent}_ask`, input)
      )
    case "stuck":
      return [callTool("stuck_ask", input)]
    case "again":
      return attempts++ === 0 ? [say("half"), noFinish] : [say("whole")]
    case "cut":
      return [say("half"), errorChunk({ message: `No more for ${planted.taken}`, code: 400 })]
    default:
      return [error(400, { message: `Bad request with ${planted.taken}` })]
  }
}

const inline = { type: "bearer", token: planted.inline } as const
/** What each peer insists on and does, and how the request says to speak to it. */
const peers = {
  inline: [{ token: planted.inline, acts: [completes("yes")] }, inline],
  variable: [
    { token: planted.variable, acts: [completes("yes")] },
    { type: "bearer_env", env_var: "PEER_TOKEN" }
  ],
  broken: [{ token: planted.inline, acts: [fails(`not with ${planted.inline}`)] }, inline],
  locked: [
    { token: planted.inline, acts: [] },
    { type: "bearer", token: planted.wrong }
  ],
  stuck: [{ token: planted.inline, acts: [says("hm"), stuck] }, inline],
  signed: [
    { token: planted.variable, acts: [completes("yes")] },
    { type: "did_signed", token_env_var: "PEER_TOKEN" }
  ],
  granted: [{ token: planted.granted, acts: [fails(`not with ${planted.granted}`)] }, grant("/granted")],
  denied: [{ token: planted.granted, acts: [] }, grant("/denied")]
} as const

/** The token endpoint at a path of the issuer, whose origin is not known yet. */
function grant(path: string) {
  return {
    type: "oauth2_client_credentials",
    token_url: path,
    client_id: clientId,
    client_secret_env_var: "PEER_SECRET"
  } as const
}

/** Gives a token, or none, and repeats what it was sent. */
const issuer: Host = ({ headers, url }) =>
  Effect.succeed(
    url.pathname === "/granted"
      ? json(200, { access_token: planted.granted, token_type: "Bearer", scope: headers["authorization"] })
      : json(401, { error: "invalid_client", error_description: `${headers["authorization"]} ${planted.client}` })
  )

const agent = { name: "a", endpoint: "http://127.0.0.1:1/", auth: { type: "bearer", token: planted.invalid } }
const withAuth = (auth: object) => ({ question: "?", agents: [{ ...agent, auth }] })
/** Refused, with a token in each place where a request may hold one. */
const invalid = {
  field: { question: "", agents: [{ ...agent, name: "not a name" }] },
  long: withAuth({ type: "bearer", token: planted.invalid.repeat(1_000) }),
  list: withAuth({ type: "bearer", token: [planted.invalid] }),
  type: withAuth({ type: planted.invalid }),
  variable: withAuth({ type: "bearer_env", token: planted.invalid }),
  unknown: withAuth({ ...agent.auth, more: planted.invalid }),
  later: { question: "?", mcp_servers: [{ auth: agent.auth, headers: { "x-key": planted.invalid } }] },
  endpoint: { question: "?", agents: [{ name: "a", endpoint: `http://u:${planted.invalid}@127.0.0.1/` }] },
  cut: JSON.stringify({ question: "?", agents: [agent] }).slice(0, -9),
  text: `${planted.invalid} is no JSON`
}

/** Where one of the marks is told, out of all that was said. */
const tellingOf = (marks: ReadonlyArray<string>) => (said: ReadonlyMap<string, string>) =>
  Array.from(said).flatMap(([where, text]) => (marks.some((secret) => text.includes(secret)) ? [where] : []))
const telling = tellingOf(marks)

/** What `bowline check` prints. */
const check = (environment: Readonly<Record<string, string>>) =>
  Effect.callback<string>((resume, signal) => {
    const env = { PATH: process.env["PATH"], ...environment }
    execFile(process.execPath, [bowline, "check"], { env, signal }, (_, stdout, stderr) =>
      resume(Effect.succeed(stdout + stderr))
    )
  })

const gateway = {
  BOWLINE_API_KEYS: `ann=${planted.ann},bob=${planted.bob}`,
  BOWLINE_ADMIN_CALLERS: "ann",
  BOWLINE_ENV_ALLOW: "PEER_*",
  BOWLINE_MODEL: "openai/scripted",
  BOWLINE_RETRY_BASE: "1ms",
  LOG_LEVEL: "trace",
  OPENAI_API_KEY: planted.overruled,
  OPENAI_API_KEYS: `${planted.refused},${planted.taken}`,
  PEER_TOKEN: planted.variable,
  PEER_SECRET: planted.client,
  BOWLINE_DID_SEED: seed.toString("base64"),
  BOWLINE_DID_AUTHOR: "ann@example.com",
  BOWLINE_DID_NAME: "gateway",
  BOWLINE_SECRET_KEY: secretKey.toString("base64")
}

describe("secrets", () => {
  it.live.each(["postgres", "memory"] as const)(
    "are in no log line, no frame, no answer, no span, no metric and no table of a run in which everything happens, on %s",
    (store) =>
      Effect.gen(function* () {
        attempts = 0
        const network = yield* Network
        const provider = yield* network.serve(refusing(yield* ChatHost.make(script)))
        const echoing = yield* network.serve(echo)
        const collector = yield* Collector.serve()
        const folder = yield* folderOf({ "bowline.config.yaml": fileOf(echoing.url) })
        const stored: { readonly DATABASE_URL?: string; readonly BOWLINE_DATA_DIR?: string } = yield* databases[store]
        const settings = {
          ...stored,
          ...gateway,
          ...collector.settings,
          OTEL_EXPORTER_OTLP_HEADERS: `x-collector=${planted.collector}`,
          BOWLINE_CONFIG: join(folder, "bowline.config.yaml"),
          OPENAI_BASE_URL: `${provider.url}/v1`
        }
        const password = new URL(stored.DATABASE_URL ?? "none:").password
        const telling = tellingOf(password === "" ? marks : [...marks, password])
        const { url, kill, lines } = yield* start(settings)
        const tokens = yield* network.serve(issuer)
        const agents = yield* Effect.forEach(Object.entries(peers), ([name, [peer, named]]) => {
          const auth = "token_url" in named ? { ...named, token_url: tokens.url + named.token_url } : named
          return Effect.map(ScriptedPeer.serve(peer), (served) => ({
            name,
            endpoint: `${served.url}/?api_key=${planted.endpoint}`,
            auth,
            served
          }))
        })
        const catalog = agents.map(({ name, endpoint, auth }) => ({
          name,
          endpoint,
          auth,
          dialect: "a2a-0.3",
          skills: [{ id: "ask" }]
        }))

        const said = new Map<string, string>()
        const asks = (
          what: string,
          body: object | string,
          headers: Readonly<Record<string, string>> = bearer(planted.ann)
        ) =>
          post(`${url}/plan`, body, headers).pipe(
            Effect.tap(({ text }) => Effect.sync(() => said.set(`${what}: POST /plan`, text)))
          )
        const asksAsStream = (what: string, body: object) => asks(what, body, { ...bearer(planted.ann), ...sse })

        const all = yield* asksAsStream("all", { question: "all", session_id: "s", agents: catalog })
        assert.includeMembers([...eventsOf(all.text)], ["retry", "task.finished", "final", "done"])
        const stuckPlan = { question: "stuck", agents: catalog, preferences: { timeout_ms: 10_000 } }
        assert.include((yield* asksAsStream("stuck", stuckPlan)).text, `"reason":"deadline"`)
        yield* agents.find(({ name }) => name === "stuck")?.served.cancelled ?? Effect.void
        assert.include((yield* asksAsStream("again", { question: "again" })).text, "event: text.retract")
        assert.include((yield* asksAsStream("cut", { question: "cut" })).text, `"partial":true`)
        const servers = [
          {
            name: "echo",
            url: `${echoing.url}/mcp?key=${planted.query}`,
            auth: { type: "bearer", token: planted.server },
            headers: { "x-key": planted.serverHeader }
          }
        ]
        const repeated = { question: "?", preferences: { model: "other/echo" }, mcp_servers: servers }
        const echoed = yield* asksAsStream("repeated", repeated)
        assert.include(echoed.text, "mcp_unreachable")
        assert.include(echoed.text, "provider_bad_request")
        const failed = yield* asks("bad", { question: "bad", session_id: "s" })
        assert.deepInclude(failed.body["error"], { code: "provider_bad_request" })

        for (const [what, body] of Object.entries(invalid)) {
          assert.strictEqual((yield* asks(what, body)).status, 400, what)
        }
        const stranger = yield* asks("stranger", { question: "?" }, bearer(planted.stranger))
        assert.strictEqual(stranger.status, 401)

        const paths = ["/plans", "/sessions", "/sessions/s", "/sessions/s/messages", "/credentials"]
        const open = ["/metrics", "/.well-known/did.json", "/openapi.json", "/docs", "/health", "/ready"]
        const listed = yield* send(`${url}/plans`, { headers: bearer(planted.ann) })
        const ids = (listed.body["plans"] as ReadonlyArray<{ readonly plan_id: string }>).map(({ plan_id }) => plan_id)
        assert.strictEqual(ids.length, 6)
        for (const path of [...paths, ...open, ...ids.flatMap((id) => [`/plans/${id}`, `/plans/${id}/events`])]) {
          const answer = yield* send(url + path, { headers: bearer(planted.ann) })
          assert.strictEqual(answer.status, 200, path)
          said.set(`GET ${path}`, answer.text)
        }
        assert.match(said.get("GET /credentials") ?? "", /"openai-1","provider":"openai","state":"out"/)
        const notHers = yield* send(`${url}/credentials`, { headers: bearer(planted.bob) })
        said.set("GET /credentials of bob", notHers.text)
        const clear = { method: "POST", headers: bearer(planted.ann) }
        said.set("clear", (yield* send(`${url}/credentials/openai-1/clear`, clear)).text)

        assert.strictEqual(yield* kill("SIGTERM"), 0)
        const tables = stored.DATABASE_URL === undefined ? undefined : yield* dump(stored.DATABASE_URL)
        for (const [name, text] of tables ?? []) said.set(`table ${name}`, text)
        lines.forEach((line, at) => said.set(`log line ${at}: ${line.slice(0, 60)}`, line))

        for (const [at, request] of (yield* collector.requests.all).entries()) {
          assert.strictEqual(request.headers["x-collector"], planted.collector)
          said.set(`export ${at}: ${request.url.pathname}`, request.body)
        }
        const checked = yield* check(settings)
        assert.include(checked, `"headers": "<redacted>"`)
        said.set("bowline check", checked)

        // All of them were in use, and what is searched is what was said.
        const sent = (yield* provider.requests.all).map(({ headers }) => headers["authorization"])
        assert.includeMembers(sent, [`Bearer ${planted.refused}`, `Bearer ${planted.taken}`])
        for (const { auth, name, served } of agents) {
          if (name === "denied") continue
          const used = (yield* served.requests.all).map(({ headers }) => headers["authorization"])
          const granted = auth.type === "oauth2_client_credentials" ? planted.granted : planted.variable
          assert.include(used, `Bearer ${auth.type === "bearer" ? auth.token : granted}`)
        }
        assert.include(all.text, "The token endpoint answered 401: invalid_client")
        assert.lengthOf(yield* tokens.requests.all, 2)
        for (const table of ["plans", "messages", "tasks", "events", "session_agents", "credentials_state"]) {
          if (tables !== undefined) assert.isNotEmpty(tables.get(table), table)
        }
        for (const { headers, url } of yield* echoing.requests.all) {
          assert.include(url.search, planted.query)
          const key = headers["authorization"]
          assert.strictEqual(headers[key === `Bearer ${planted.server}` ? "x-key" : "x-extra"] !== undefined, true)
        }
        const names = (yield* collector.spans).map(({ name }) => name)
        assert.includeMembers(names, ["plan", "chat scripted", "chat echo", "execute_tool broken_ask"])
        const log = lines.join("\n")
        for (const line of [
          "mcp_server_stderr",
          "another variable wins",
          "provider_retry",
          "plan_aborted",
          "plan_failed"
        ]) {
          assert.include(log, line)
        }
        assert.deepStrictEqual(telling(said), [])
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each([
    ["encrypted", gateway],
    ["not at all without a key", { ...gateway, BOWLINE_SECRET_KEY: "" }]
  ] as const)("of a running plan are kept %s, and of an ended one nowhere", ([, environment]) =>
    Effect.gen(function* () {
      const network = yield* Network
      const provider = yield* network.serve(refusing(yield* ChatHost.make(script)))
      const settings = { ...(yield* databases.postgres), ...environment, OPENAI_BASE_URL: `${provider.url}/v1` }
      const { url } = yield* start(settings)
      const [scripted, auth] = peers.stuck
      const peer = yield* ScriptedPeer.serve(scripted)
      const agents = [{ name: "stuck", endpoint: `${peer.url}/`, auth, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
      const running = yield* Effect.forkChild(post(`${url}/plan`, { question: "stuck", agents }, bearer(planted.ann)))
      yield* peer.requests.awaitCount(1)

      assert.deepStrictEqual(telling(yield* dump(settings.DATABASE_URL)), [])
      const [kept] = yield* keptRequests(settings.DATABASE_URL)
      assert.nestedPropertyVal(kept?.request, "agents[0].auth.type", "bearer")
      const planId = PlanId.make(kept?.plan_id ?? "")
      const restored = kept && StoredRequest.restore(kept, planId, Option.some(Redacted.make(secretKey)))
      const tokens = Option.map(Option.flatMap(Option.fromNullishOr(restored), Result.getSuccess), ({ agents }) =>
        agents.map(({ auth }) => auth)
      )
      const isKept = environment.BOWLINE_SECRET_KEY !== ""
      assert.strictEqual(kept?.secrets !== null, isKept)
      assert.deepStrictEqual(
        tokens,
        isKept ? Option.some([{ type: "bearer", token: Redacted.make(planted.inline) }]) : Option.none()
      )

      yield* post(`${url}/plans/${planId}/cancel`, {}, bearer(planted.ann))
      assert.deepInclude((yield* Fiber.join(running)).body["error"], { reason: "cancelled" })
      const [left] = yield* keptRequests(settings.DATABASE_URL)
      assert.deepStrictEqual(left, { plan_id: planId, request: kept?.request ?? null, secrets: null })
      const shown = (yield* send(`${url}/plans/${planId}`, { headers: bearer(planted.ann) })).body["request"]
      assert.nestedPropertyVal(shown, "agents[0].auth.type", "bearer")
      assert.deepStrictEqual(telling(new Map([["the plan", JSON.stringify(shown)]])), [])
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("are not shown by a gateway that cannot start with them", () =>
    Effect.forEach(
      [
        // All that is wrong with the configuration is told at once.
        {
          BOWLINE_API_KEYS: planted.ann,
          BOWLINE_ADMIN_CALLERS: `${planted.ann}/`,
          BOWLINE_DID_SEED: planted.seed,
          BOWLINE_SECRET_KEY: planted.key,
          OPENAI_API_KEYS: `${planted.taken},${planted.taken}`,
          OPENAI_BASE_URL: `ftp://u:${planted.taken}@127.0.0.1/`,
          DATABASE_URL: `http://u:${planted.taken}@127.0.0.1/`
        },
        {
          BOWLINE_API_KEYS: `ann=${planted.ann},bob=${planted.ann}`,
          OPENAI_API_KEY: `${planted.taken}\t.`
        },
        {
          DATABASE_URL: `postgres://u:${planted.taken}@127.0.0.1:1/none`,
          // A gateway with a database and no provider does not come as far as the database.
          OPENAI_BASE_URL: "http://127.0.0.1:1/v1"
        }
      ],
      Effect.fnUntraced(function* (settings) {
        const exit = yield* Effect.exit(start({ BOWLINE_DATA_DIR: "memory:", LOG_LEVEL: "trace", ...settings }))
        const why = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "It has started"
        assert.include(why, "The gateway ended:")
        const names = Object.keys(settings).filter((name) => !why.includes(`${name}:`))
        assert.isTrue(names.length === 0 || why.includes("database is not available"), `${names.join()} in ${why}`)
        assert.notInclude(why, mark)
      }, Effect.scoped),
      { concurrency: 4, discard: true }
    )
  )
})
