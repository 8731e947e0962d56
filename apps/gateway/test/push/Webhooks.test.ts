import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Schedule, Scope } from "effect"
import { createPublicKey, verify } from "node:crypto"
import { join } from "node:path"
import { Webhook } from "standardwebhooks"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start, stores } from "../http/RunningGateway.ts"
import { dump } from "../plan/Databases.ts"

const planted = "planted-secret"
const secret = `whsec_${Buffer.from(planted.repeat(2)).toString("base64")}`
const key = { BOWLINE_SECRET_KEY: Buffer.alloc(32, 7).toString("base64") }

/** A receiver of webhooks, which answers each delivery with this status. */
const receiver = (status: (count: number) => number = () => 204) => {
  let count = 0
  return Effect.flatMap(Network, ({ serve }) => serve(() => Effect.sync(() => Host.text(status(++count), "")))).pipe(
    Effect.provide(LoopbackNetwork.layer)
  )
}

interface Told {
  readonly type: string
  readonly timestamp: string
  readonly data: Readonly<Record<string, unknown>>
}

/** The body of a delivery, if the library that others use takes its signature. */
const verified = ({ body, headers }: Host.HostRequest, by = secret) => new Webhook(by).verify(body, headers) as Told

const ask = (url: string, fields: object) => post(`${url}/plan`, { question: "Hi", ...fields })

const deliveriesOf = Effect.fnUntraced(function* (url: string, plan: unknown) {
  const { body } = yield* send(`${url}/plans/${String(plan)}/webhooks`)
  return body["deliveries"] as ReadonlyArray<Readonly<Record<string, unknown>>>
})

/** The deliveries of a plan, once none is pending. */
const settled = (url: string, plan: unknown) =>
  Effect.repeat(deliveriesOf(url, plan), {
    until: (all) => all.length > 0 && all.every(({ state }) => state !== "pending"),
    schedule: Schedule.spaced("20 millis")
  })

describe("a webhook of a request", () => {
  it.live("is told of the end, signed with its secret, with ids and no text", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("the answer")], key)
      const { requests, url: hook } = yield* receiver()
      const webhooks = [{ url: hook, secret, headers: { "x-for": planted, authorization: "Bearer me" } }]
      const { body: plan } = yield* ask(url, { session_id: "mine", metadata: { ticket: "7" }, webhooks })
      const [request] = yield* requests.awaitCount(1)
      assert(request !== undefined)
      const { data, timestamp, type } = verified(request)
      assert.strictEqual(type, "plan.completed")
      assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      const { plan_id, session_id } = plan
      assert.deepStrictEqual(data, {
        plan_id,
        session_id,
        external_session_id: "mine",
        state: "completed",
        stop_reason: "stop",
        metadata: { ticket: "7" }
      })
      assert.deepInclude(request.headers, { "x-for": planted, authorization: "Bearer me" })
      const [delivery, ...more] = yield* settled(url, plan_id)
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(delivery, {
        delivery_id: request.headers["webhook-id"],
        url: hook,
        event: "plan.completed",
        state: "delivered",
        tries: 1,
        last_status: 204,
        next_try_at: null
      })
      const { body: shown } = yield* send(`${url}/plans/${String(plan_id)}`)
      assert.notInclude(JSON.stringify(shown), planted)
    })
  )

  it.live("is told of the events that it wants, with the answer if it wants that", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("the answer")], key)
      const { requests, url: hook } = yield* receiver()
      const webhooks = [
        { url: `${hook}/failures`, secret, events: ["plan.failed"] },
        { url: `${hook}/answers`, secret, include: ["final"] }
      ]
      yield* ask(url, { webhooks })
      const [request] = yield* requests.awaitCount(1)
      assert(request !== undefined)
      assert.strictEqual(request.url.pathname, "/answers")
      assert.strictEqual(verified(request).data["final"], "the answer")
    })
  )

  it.live("is told that a plan waits before it is told how that ended", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[callTool("pick", {})], [say("ok")]], key)
      const { requests, url: hook } = yield* receiver()
      const tools = [{ name: "pick", input_schema: { type: "object" }, wait_timeout_ms: 1_000 }]
      const { body: plan } = yield* ask(url, { tools, webhooks: [{ url: hook, secret }] })
      const told = (yield* requests.awaitCount(2)).map((request) => verified(request))
      assert.deepStrictEqual(
        told.map(({ data, type }) => [type, data["state"]]),
        [
          ["plan.waiting", "waiting"],
          ["plan.completed", "completed"]
        ]
      )
      assert.deepInclude(told[0]?.data["waiting"], { kind: "result", tool: "pick", agent: null })
      assert.strictEqual(told[0]?.data["plan_id"], plan["plan_id"])
    })
  )

  it.live("is told again what it did not take, under the same id, and once more when somebody asks for it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], key)
      const { requests, url: hook } = yield* receiver((count) => (count === 1 ? 503 : 200))
      const { body: plan } = yield* ask(url, { webhooks: [{ url: hook, secret }] })
      const all = yield* requests.awaitCount(2)
      for (const request of all) verified(request)
      assert.strictEqual(new Set(all.map(({ headers }) => headers["webhook-id"])).size, 1)
      const [delivery] = yield* settled(url, plan["plan_id"])
      assert.deepInclude(delivery, { state: "delivered", tries: 2, last_status: 200 })
      const path = `${url}/plans/${String(plan["plan_id"])}/webhooks/${String(delivery?.["delivery_id"])}/retry`
      const again = yield* post(path, "")
      assert.deepStrictEqual([again.status, again.body["state"]], [202, "pending"])
      yield* requests.awaitCount(3)
      assert.deepInclude((yield* settled(url, plan["plan_id"]))[0], { state: "delivered", tries: 3 })
      const wrong = yield* post(path.replace(/delivery_[^/]+/, "delivery_x_1"), "")
      assert.deepStrictEqual([wrong.status, wrong.body["code"]], [404, "not_found"])
      assert.strictEqual((yield* send(`${url}/plans/plan_x/webhooks`)).status, 404)
    })
  )

  it.live("that is gone is told nothing more", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], key)
      const { requests, url: hook } = yield* receiver(() => 410)
      const { body: plan } = yield* ask(url, { webhooks: [{ url: hook, secret }] })
      const [delivery] = yield* settled(url, plan["plan_id"])
      assert.deepInclude(delivery, { state: "dropped", tries: 1, last_status: 410 })
      assert.lengthOf(yield* requests.all, 1)
    })
  )

  it.live("without a secret is signed with the key of the gateway's DID", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], {
        BOWLINE_DID_SEED: Buffer.alloc(32, 3).toString("base64"),
        BOWLINE_DID_AUTHOR: "ops@example.com",
        BOWLINE_DID_NAME: "gateway"
      })
      const { requests, url: hook } = yield* receiver()
      yield* ask(url, { webhooks: [{ url: hook }] })
      const [request] = yield* requests.awaitCount(1)
      assert(request !== undefined)
      const { body, headers } = request
      const [scheme, signature = ""] = (headers["webhook-signature"] ?? "").split(",")
      const { createPrivateKey } = yield* Effect.promise(() => import("node:crypto"))
      const seed = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 3)])
      const publicKey = createPublicKey(createPrivateKey({ key: seed, format: "der", type: "pkcs8" }))
      const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`
      assert.strictEqual(scheme, "v1a")
      assert.isTrue(verify(null, Buffer.from(signed), publicKey, Buffer.from(signature, "base64")))
    })
  )

  it.live("gets nothing at an address that the egress rules deny, and none of where it is redirected to", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], { ...key, BOWLINE_EGRESS_DENY: "127.0.0.2" })
      const denied = yield* receiver()
      const { port } = new URL(denied.url)
      const { body: plan } = yield* ask(url, { webhooks: [{ url: `http://127.0.0.2:${port}/`, secret }] })
      const tried = Effect.repeat(deliveriesOf(url, plan["plan_id"]), {
        until: ([first]) => Number(first?.["tries"]) > 0,
        schedule: Schedule.spaced("20 millis")
      })
      assert.deepInclude((yield* tried)[0], { state: "pending", last_status: null })
      assert.deepStrictEqual(yield* denied.requests.all, [])
    })
  )

  it.live("that is wrong is refused, with the field and the way out", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("never")], { BOWLINE_ENV_ALLOW: "HOOK_EMPTY", HOOK_EMPTY: "abc" })
      const issuesOf = Effect.fnUntraced(function* (...webhooks: ReadonlyArray<object>) {
        const { body, status } = yield* ask(url, { webhooks })
        assert.strictEqual(status, 400)
        const issues = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        return issues.map(({ message, path }) => `${path}: ${message}`)
      })
      const hook = "http://a.test/"
      const [none] = yield* issuesOf({ url: hook })
      assert.match(none ?? "", /webhooks.*0.*secret_env_var or secret.*BOWLINE_DID_SEED/)
      const [inline] = yield* issuesOf({ url: hook, secret })
      assert.match(inline ?? "", /webhooks.*0.*secret.*secret_env_var.*BOWLINE_SECRET_KEY/)
      const [denied] = yield* issuesOf({ url: hook, secret_env_var: "PATH" })
      assert.match(denied ?? "", /webhooks.*0.*secret_env_var.*BOWLINE_ENV_ALLOW/)
      const [empty] = yield* issuesOf({ url: hook, secret_env_var: "HOOK_EMPTY" })
      assert.match(empty ?? "", /webhooks.*0.*secret_env_var.*whsec_/)
      const wrong = [
        { url: "ftp://a.test/" },
        { url: hook, events: ["plan.started"] },
        { url: hook, secret: "abc" },
        { url: hook, headers: { "webhook-id": "1" } }
      ]
      assert.lengthOf(yield* issuesOf(...wrong), 4)
      assert.lengthOf(yield* issuesOf(...Array.from({ length: 5 }, () => ({ url: hook, secret }))), 1)
    })
  )

  it.live("is told by the next process what the last one could not, and its secret stands nowhere in the store", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const environment = { ...settings, ...key }
      let isBack = false
      const { requests, url: hook } = yield* receiver(() => (isBack ? 200 : 503))
      const first = yield* Scope.make()
      const { url } = yield* Scope.provide(
        start(() => [say("ok")], environment),
        first
      )
      yield* ask(url, { webhooks: [{ url: hook, secret, headers: { "x-for": planted } }] })
      yield* requests.awaitCount(1)
      for (const [table, rows] of yield* dump(settings.DATABASE_URL)) assert.notInclude(rows, planted, table)
      yield* Scope.close(first, Exit.void)
      const before = (yield* requests.all).length
      isBack = true
      yield* start(() => [say("never")], environment)
      const all = yield* requests.awaitCount(before + 1)
      const last = all.at(-1)
      assert(last !== undefined)
      assert.strictEqual(verified(last).type, "plan.completed")
      assert.strictEqual(last.headers["webhook-id"], all[0]?.headers["webhook-id"])
    })
  )
})

describe("the webhooks of the configuration", () => {
  const configured = (file: object) =>
    Effect.map(folderOf({ "gateway.json": JSON.stringify(file) }), (folder) => ({
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      HOOK_SECRET: secret
    }))

  it.live("are told of all plans, and those of a preset of its plans", () =>
    Effect.gen(function* () {
      const { requests, url: hook } = yield* receiver()
      const settings = yield* configured({
        webhooks: [{ url: `${hook}/all`, secret_env_var: "HOOK_SECRET" }],
        presets: { support: { webhooks: [{ url: `${hook}/support`, secret, headers: { "x-for": planted } }] } }
      })
      const { url } = yield* start(() => [say("ok")], settings)
      yield* ask(url, {})
      yield* requests.awaitCount(1)
      yield* ask(url, { preset: "support" })
      const all = yield* requests.awaitCount(3)
      for (const request of all) verified(request)
      assert.deepStrictEqual(all.map(({ url }) => url.pathname).toSorted(), ["/all", "/all", "/support"])
      assert.strictEqual(all.find(({ url }) => url.pathname === "/support")?.headers["x-for"], planted)
    })
  )

  it.live("are told of a response that is not to be stored, though they take it late, and then it is gone", () =>
    Effect.gen(function* () {
      const { requests, url: hook } = yield* receiver((count) => (count === 1 ? 503 : 200))
      const { url } = yield* start(
        () => [say("ok")],
        yield* configured({ webhooks: [{ url: hook, secret_env_var: "HOOK_SECRET" }] })
      )
      const { headers } = yield* post(`${url}/v1/responses`, { model: "bowline", input: "Hi", store: false })
      const all = yield* requests.awaitCount(2)
      const plan = headers.get("x-bowline-plan-id")
      assert.deepStrictEqual(
        all.map((request) => verified(request).data["plan_id"]),
        [plan, plan]
      )
      yield* Effect.repeat(send(`${url}/plans/${plan}`), {
        until: ({ status }) => status === 404,
        schedule: Schedule.spaced("20 millis")
      })
    })
  )

  it.live("need a variable that holds a secret", () =>
    Effect.gen(function* () {
      const settings = yield* configured({ webhooks: [{ url: "http://a.test/", secret_env_var: "HOOK_NONE" }] })
      const failure = yield* Effect.flip(start(() => [say("never")], settings))
      const problems = failure._tag === "InvalidConfiguration" ? failure.problems : []
      assert.match(JSON.stringify(problems), /webhooks.*0.*secret_env_var.*HOOK_NONE.*whsec_/)
    })
  )
})
