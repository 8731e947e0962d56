import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { becomes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { post, type RunningGateway, send, startOn, stores } from "./RunningGateway.ts"

const unknownMessage = "msg_00000000-0000-4000-8000-000000000001"

type Message = { readonly message_id: string; readonly seq: number; readonly role: string; readonly compacted: boolean }

const del = (url: string) => send(url, { method: "DELETE" })

const messagesOf = (url: string, session: string) =>
  Effect.map(send(`${url}/sessions/${session}/messages?limit=200`), ({ body }) => body["messages"] as Array<Message>)

/** What each request to the provider asked. */
const askedOf = ({ provider }: RunningGateway) =>
  Effect.flatMap(provider.requests.all, (all) => Effect.forEach(all, ChatHost.asked))

const plansOf = (url: string, session: string, state: string) =>
  Effect.map(send(`${url}/plans?session_id=${session}&state=${state}`), ({ body }) => {
    return (body["plans"] ?? []) as ReadonlyArray<{ readonly plan_id: string }>
  })

/** Asks, and goes on once the plan is in that state. */
const asking = Effect.fnUntraced(function* (url: string, session: string, state: "queued" | "running") {
  const fiber = yield* Effect.forkChild(post(`${url}/plan`, { question: "?", session_id: session }))
  yield* Effect.repeat(plansOf(url, session, state), { until: (plans) => plans.length > 0 })
  return fiber
})

const ask = (url: string, session: string, fields: object = {}) =>
  post(`${url}/plan`, { question: "?", session_id: session, ...fields })

const issuePaths = (body: Readonly<Record<string, unknown>>) =>
  (body["issues"] as ReadonlyArray<{ readonly path: string }>).map(({ path }) => path)

const agent = (url: string, fields: object = {}) => ({
  name: "bob",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "ask" }],
  ...fields
})

describe.each(Object.entries(stores))("a caller who keeps the history itself, %s", (_, store) => {
  const start = startOn(store)

  it.live("sends it with the question, and a summary of what was said before it", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("ok")])
      const { url } = gateway
      const history = [
        { role: "user", content: "first" },
        { role: "assistant", content: "second" }
      ]
      const { body } = yield* post(`${url}/plan`, { question: "third", history, prior_summary: "planted fact 4711" })
      const [asked] = yield* askedOf(gateway)
      assert.deepStrictEqual(
        asked?.messages.map((message) => [message.role, "text" in message ? message.text : ""]),
        [
          ["user", "first"],
          ["assistant", "second"],
          ["user", "third"]
        ]
      )
      assert.include(asked?.system, "planted fact 4711")
      const session = String(body["session_id"])
      const messages = yield* messagesOf(url, session)
      assert.deepStrictEqual(
        messages.map(({ seq, role }) => [seq, role]),
        [
          [1, "user"],
          [2, "assistant"],
          [3, "user"],
          [4, "assistant"]
        ]
      )
      const shown = yield* send(`${url}/sessions/${session}`)
      assert.deepInclude(shown.body, { summary: "planted fact 4711", message_count: 4 })
    })
  )

  it.live("sends as much of it as the limit allows, and can read all of it page by page", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const history = Array.from({ length: 1_000 }, (_, index) => ({
        role: index % 2 === 0 ? "user" : "assistant",
        content: String(index + 1)
      }))
      yield* ask(url, "s", { history })
      const seqs: Array<number> = []
      for (let cursor = ""; ;) {
        const { body } = yield* send(`${url}/sessions/s/messages?limit=200${cursor}`)
        seqs.push(...(body["messages"] as ReadonlyArray<Message>).map(({ seq }) => seq))
        if (typeof body["next_cursor"] !== "string") break
        cursor = `&cursor=${body["next_cursor"]}`
      }
      assert.deepStrictEqual(
        seqs,
        Array.from({ length: 1_002 }, (_, index) => index + 1)
      )
    })
  )

  it.live("sends a history to a new session only, and a summary of what was said before to any", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("ok")])
      const { url } = gateway
      const history = [{ role: "user", content: "first" }]
      assert.strictEqual((yield* ask(url, "s", { history })).status, 200)
      const refused = yield* ask(url, "s", { history })
      assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "invalid_request"])
      assert.deepStrictEqual(issuePaths(refused.body), ["history"])
      assert.deepInclude((yield* send(`${url}/sessions/s`)).body, { message_count: 3, summary: null })
      yield* ask(url, "s", { history: [], prior_summary: "planted fact" })
      yield* ask(url, "s", { prior_summary: "another fact" })
      const last = (yield* askedOf(gateway)).at(-1)
      assert.match(last?.system ?? "", /planted fact[^]*another fact/)
      assert.deepInclude((yield* send(`${url}/sessions/s`)).body, { summary: "planted fact\n\nanother fact" })
    })
  )
})

describe.each(Object.entries(stores))("the sessions of a caller, %s", (_, store) => {
  it.live("are listed page by page, the newest first", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(store)(() => [say("ok")])
      for (const name of ["one", "two", "three"]) yield* ask(url, name)
      yield* ask(url, "one")
      const pages: Array<ReadonlyArray<unknown>> = []
      for (let cursor = ""; ;) {
        const { body } = yield* send(`${url}/sessions?limit=2${cursor}`)
        pages.push(
          (body["sessions"] as ReadonlyArray<Record<string, unknown>>).map((one) => one["external_session_id"])
        )
        if (typeof body["next_cursor"] !== "string") break
        cursor = `&cursor=${body["next_cursor"]}`
      }
      assert.deepStrictEqual(pages, [["three", "two"], ["one"]])
    })
  )
})

describe.each(Object.entries(stores))("a revert, %s", (_, store) => {
  const start = startOn(store)

  it.live("drops what came after a message, for callers and in prompts", () =>
    Effect.gen(function* () {
      const gateway = yield* start(({ messages }) => [say(`answer ${messages.length}`)])
      const { url } = gateway
      for (const question of ["one", "two"]) yield* ask(url, "s", { question })
      const [, second] = yield* messagesOf(url, "s")
      const reverted = yield* post(`${url}/sessions/s/revert`, { to_message_id: second?.message_id })
      assert.strictEqual(reverted.status, 200)
      assert.deepInclude(reverted.body, { external_session_id: "s", message_count: 2 })
      assert.deepStrictEqual(reverted.body, (yield* send(`${url}/sessions/s`)).body)
      assert.deepStrictEqual(
        (yield* messagesOf(url, "s")).map(({ seq }) => seq),
        [1, 2]
      )
      yield* ask(url, "s", { question: "three" })
      assert.deepStrictEqual(
        (yield* messagesOf(url, "s")).map(({ seq }) => seq),
        [1, 2, 5, 6]
      )
      const last = (yield* askedOf(gateway)).at(-1)
      assert.deepStrictEqual(
        last?.messages.map((message) => ("text" in message ? message.text : "")),
        ["one", "answer 1", "three"]
      )
    })
  )

  it.live("is refused for a message that does not exist, and then aborts nothing", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")], [stall]])
      yield* ask(url, "s")
      const other = yield* asking(url, "s", "running")
      const revert = (session: string, body: unknown) => post(`${url}/sessions/${session}/revert`, body)
      const unknown = yield* revert("s", { to_message_id: unknownMessage })
      assert.deepStrictEqual([unknown.status, unknown.body["code"]], [404, "not_found"])
      assert.match(String(unknown.body["detail"]), /message/)
      assert.strictEqual((yield* revert("nobody", { to_message_id: unknownMessage })).status, 404)
      for (const body of [{}, { to_message_id: "msg_x" }, { to_message_id: 1 }]) {
        const { status, body: problem, text } = yield* revert("s", body)
        assert.deepStrictEqual([status, issuePaths(problem)], [400, ["to_message_id"]])
        assert.notMatch(text, /RegExp/)
      }
      const more = yield* revert("s", { to_message_id: unknownMessage, force: true })
      assert.deepStrictEqual([more.status, issuePaths(more.body)], [400, ["force"]])
      assert.strictEqual((yield* send(`${url}/sessions/s/revert`)).status, 405)
      assert.strictEqual((yield* plansOf(url, "s", "running")).length, 1)
      yield* Fiber.interrupt(other)
    })
  )

  it.live("aborts the plan that runs and those that wait, and leaves nothing of them", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")], [say("half"), stall]])
      yield* ask(url, "s")
      const running = yield* asking(url, "s", "running")
      const queued = yield* asking(url, "s", "queued")
      const [first] = yield* messagesOf(url, "s")
      const { status, body } = yield* post(`${url}/sessions/s/revert`, { to_message_id: first?.message_id })
      assert.deepStrictEqual([status, body["message_count"]], [200, 1])
      for (const plan of [running, queued]) {
        assert.deepInclude((yield* Fiber.join(plan)).body["error"], { code: "aborted", reason: "cancelled" })
      }
      assert.strictEqual((yield* messagesOf(url, "s")).length, 1)
    })
  )

  it.live("cancels the tasks that the dropped calls have left at peers, where that needs no secret", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")], [callTool("bob_ask", { input: "?" })], [say("which one?")]])
      const peer = yield* ScriptedPeer.serve({ acts: [becomes("input-required", "Which one?")] })
      yield* ask(url, "s")
      const asked = yield* ask(url, "s", { agents: [agent(peer.url)] })
      assert.deepInclude(asked.body, { state: "completed" })
      const [, second] = yield* messagesOf(url, "s")
      assert.strictEqual((yield* post(`${url}/sessions/s/revert`, { to_message_id: second?.message_id })).status, 200)
      yield* peer.cancelled
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

describe.each(Object.entries(stores))("the time of a session, %s", (_, store) => {
  const start = startOn(store)

  it.live("is as long as configured, counted from its last plan", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], { BOWLINE_SESSION_TTL: "90m" })
      yield* ask(url, "s")
      const { body } = yield* send(`${url}/sessions/s`)
      const lasts = Date.parse(String(body["expires_at"])) - Date.parse(String(body["last_active_at"]))
      assert.strictEqual(lasts, 90 * 60_000)
    })
  )
})

describe.each(Object.entries(stores))("the deletion of a session, %s", (_, store) => {
  const start = startOn(store)

  it.live("deletes its plans, messages and events, and succeeds once", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const { body } = yield* ask(url, "s")
      const kept = yield* ask(url, "other")
      const deleted = yield* del(`${url}/sessions/s`)
      assert.deepStrictEqual([deleted.status, deleted.text], [204, ""])
      const plan = `${url}/plans/${String(body["plan_id"])}`
      for (const gone of [`${url}/sessions/s`, `${url}/sessions/s/messages`, plan, `${plan}/events`]) {
        assert.strictEqual((yield* send(gone)).status, 404, gone)
      }
      const again = yield* del(`${url}/sessions/s`)
      assert.deepStrictEqual([again.status, again.body["code"]], [404, "not_found"])
      assert.strictEqual((yield* send(`${url}/plans/${String(kept.body["plan_id"])}`)).status, 200)
      const next = yield* ask(url, "s")
      assert.notStrictEqual(next.body["session_id"], body["session_id"])
    })
  )

  it.live("aborts the plan that runs and those that wait, and tells their callers", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[stall]])
      const running = yield* asking(url, "s", "running")
      const queued = yield* asking(url, "s", "queued")
      assert.strictEqual((yield* del(`${url}/sessions/s`)).status, 204)
      for (const plan of [running, queued]) {
        const { status, body } = yield* Fiber.join(plan)
        assert.deepStrictEqual([status, body["state"]], [200, "aborted"])
        assert.deepInclude(body["error"], { code: "aborted", reason: "cancelled" })
      }
    })
  )

  it.live("is for its owner only", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" })
      const [ann, bob] = ["key-of-ann", "key-of-bob"].map((key) => ({ authorization: `Bearer ${key}` }))
      const { body } = yield* post(`${url}/plan`, { question: "?" }, ann)
      const session = `${url}/sessions/${String(body["session_id"])}`
      assert.strictEqual((yield* send(session, { method: "DELETE", headers: bob ?? {} })).status, 404)
      const revert = yield* post(`${session}/revert`, { to_message_id: unknownMessage }, bob)
      assert.deepStrictEqual([revert.status, revert.body["detail"]], [404, "There is no such session"])
      assert.strictEqual((yield* send(session, { headers: ann ?? {} })).status, 200)
    })
  )
})

describe.each(Object.entries(stores))("the sessions of a caller, %s", (_, store) => {
  it.live("are listed newest first, or by their last activity, each with its first question and its newest plan", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(store)(() => [say("ok")])
      for (const [session, question] of [
        ["one", "Which knot?"],
        ["two", "And now?"],
        ["three", "Why?"],
        ["one", "Again?"]
      ] as const) {
        yield* ask(url, session, { question })
      }
      const list = (query: string) =>
        Effect.map(send(`${url}/sessions?${query}`), ({ body }) => ({
          names: (body["sessions"] as ReadonlyArray<Record<string, unknown>>).map((one) => one["external_session_id"]),
          first: (body["sessions"] as ReadonlyArray<Record<string, unknown>>)[0],
          next: body["next_cursor"] as string
        }))
      assert.deepStrictEqual((yield* list("")).names, ["three", "two", "one"])
      const recent = yield* list("order=active&limit=2")
      assert.deepStrictEqual(recent.names, ["one", "three"])
      assert.deepNestedInclude(recent.first, { first_question: "Which knot?", "last_plan.state": "completed" })
      const rest = yield* list(`order=active&limit=2&cursor=${recent.next}`)
      assert.deepStrictEqual([rest.names, rest.next], [["two"], null])
      const newest = yield* list("limit=2")
      assert.deepStrictEqual((yield* list(`limit=2&cursor=${newest.next}`)).names, ["one"])
      for (const wrong of ["order=other", `order=active&cursor=${newest.next}`, "order=active&cursor=Zm9v"]) {
        assert.strictEqual((yield* send(`${url}/sessions?${wrong}`)).status, 400, wrong)
      }
    })
  )
})
