import { wait } from "@bowline/testing/http/Move"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root",
  BOWLINE_ADMIN_CALLERS: "root",
  BOWLINE_RATE_LIMIT: "1000000/1m"
}
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const [ann, bob, root] = [by("ann"), by("bob"), by("root")]

type Fields = Readonly<Record<string, unknown>>

const listOf = (body: Fields, name: string) => body[name] as ReadonlyArray<Fields>
const pathsOf = (body: Fields) => (listOf(body, "issues") ?? []).map(({ path }) => path)

/** Starts a plan that goes on without a reader, and gives its id. */
const begin = Effect.fnUntraced(function* (url: string, fields: Fields, headers: Readonly<Record<string, string>>) {
  const asked = { question: "?", preferences: { on_disconnect: "continue" }, ...fields }
  const opened = yield* Effect.promise((signal) =>
    fetch(`${url}/plan`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify(asked),
      signal
    })
  )
  const reader = opened.body?.getReader() ?? assert.fail()
  const first = yield* Effect.promise(() => reader.read())
  yield* Effect.promise(() => reader.cancel())
  return (
    /"plan_id":"([^"]+)"/.exec(new TextDecoder().decode(first.value as Uint8Array | undefined))?.[1] ?? assert.fail()
  )
})

/** What the caller's plans wait for, once there is so much of it. */
const waitingOf = (url: string, count: number, headers: Readonly<Record<string, string>>, query = "") =>
  send(`${url}/waiting?${query}`, { headers }).pipe(
    Effect.map(({ body }) => listOf(body, "waiting")),
    Effect.repeat({ until: (waiting) => waiting.length >= count, schedule: Schedule.spaced("10 millis") })
  )

const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)])

const pick = { name: "pick", input_schema: {}, output_schema: { type: "object", required: ["color"] } }

/** What is no entry, with the fields that its refusal names. `task` is a call that waits for a result. */
const rubbish = (task_id: unknown): ReadonlyArray<readonly [body: unknown, ...paths: ReadonlyArray<string>]> => [
  [null, ""],
  [[], ""],
  [[{ type: "text", text: "?" }], ""],
  [1, ""],
  ["text", ""],
  ["{", ""],
  [{}, "type"],
  [{ type: null }, "type"],
  [{ type: ["text"] }, "type"],
  [{ type: "shout", text: "?" }, "type"],
  [{ type: "__proto__" }, "type"],
  [{ text: "?" }, "type"],
  [{ type: "text" }, "text"],
  [{ type: "text", text: " \n" }, "text"],
  [{ type: "text", text: ["?"], when: "later", else: null, extra: 1 }, "extra", "text", "when", "else"],
  [{ type: "text", text: "x".repeat(200_001) }, "text"],
  [{ type: "text", text: "cut \ud83d" }, "text"],
  [{ type: "text", text: "?", task_id }, "task_id"],
  [{ type: "result" }, "task_id", "content"],
  [{ type: "result", task_id: 7, content: 1, is_error: "no" }, "task_id", "is_error"],
  [{ type: "result", task_id: "nothing", content: 1 }, "task_id"],
  [{ type: "result", task_id, content: { color: ["\udc00"] } }, "content.color[0]"],
  [{ type: "result", task_id, content: nested(70) }, ""],
  [{ type: "result", task_id, content: {} }, "content"],
  [{ type: "answer", task_id, round: 0, text: "", data: "\ud83d", action: "yes" }, "round", "text", "action", "data"],
  [{ type: "answer", task_id, round: 1.5 }, "round"],
  [{ type: "decision", task_id }, "decision"],
  [
    { type: "decision", task_id, decision: "maybe", note: 1, input: [], remember: true },
    "decision",
    "note",
    "input",
    "remember"
  ],
  [{ type: "decision", task_id, decision: "approve", note: "n".repeat(4_097) }, "note"]
]

describe("an inbox", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`names every field of what is no entry, and the call waits on (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(
          (asked) => (results(asked).length === 0 ? [callTool("pick", {})] : [say("ok")]),
          callers
        )
        const plan = yield* begin(url, { tools: [pick] }, ann)
        const [wait] = yield* waitingOf(url, 1, ann)
        const inbox = `${url}/plans/${plan}/inbox`
        for (const [body, ...paths] of rubbish(wait?.["task_id"])) {
          const refused = yield* post(inbox, body === "{" ? body : JSON.stringify(body), ann)
          const label = JSON.stringify(body).slice(0, 200)
          assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "invalid_request"], label)
          assert.deepStrictEqual(pathsOf(refused.body), paths, label)
          if (paths[0] === "type") {
            assert.include(refused.text, "Expected text or result or answer or decision", label)
          }
        }
        for (const key of ["", "k".repeat(201), "schlüssel"]) {
          const refused = yield* post(inbox, { type: "text", text: "?" }, { ...ann, "idempotency-key": key })
          assert.deepStrictEqual([refused.status, pathsOf(refused.body)], [400, ["idempotency-key"]], key)
        }
        assert.deepStrictEqual(listOf((yield* send(inbox, { headers: ann })).body, "entries"), [])
        assert.lengthOf(yield* waitingOf(url, 1, ann), 1)
        const given = { type: "result", task_id: wait?.["task_id"], content: { color: "red 🪢" } }
        assert.strictEqual((yield* post(inbox, given, bob)).status, 404)
        assert.strictEqual((yield* post(inbox, given, root)).status, 202)
      }).pipe(Effect.scoped)
    )
  }

  it.live("takes 100 texts that wait, of all that come at once to two replicas, and one more for one taken back", () =>
    Effect.gen(function* () {
      const settings = { ...(yield* stores.postgres), ...callers }
      const script = () => [wait("10 minutes"), say("ok")]
      const [one, two] = [yield* start(script, settings), yield* start(script, settings)]
      const plan = yield* begin(one.url, {}, ann)
      const tell = (n: number, text = `${n}`) =>
        post(`${n % 2 === 0 ? one.url : two.url}/plans/${plan}/inbox`, { type: "text", text }, ann)
      const told = yield* Effect.forEach(
        Array.from({ length: 120 }, (_, n) => n),
        (n) => tell(n),
        { concurrency: 30 }
      )
      const accepted = told.filter(({ status }) => status === 202)
      assert.lengthOf(accepted, 100)
      for (const { body, status } of told.filter((answer) => !accepted.includes(answer))) {
        assert.deepInclude(body, { status: 409, code: "inbox_full", retryable: true })
        assert.strictEqual(status, 409)
      }
      const ids = accepted.map(({ body }) => String(body["entry_id"]))
      const remove = (url: string, headers: Readonly<Record<string, string>>, id = ids[0]) =>
        Effect.map(send(`${url}/plans/${plan}/inbox/${id}`, { method: "DELETE", headers }), ({ status }) => status)
      assert.strictEqual(yield* remove(one.url, bob), 404)
      assert.strictEqual(yield* remove(one.url, ann, "nothing"), 404)
      assert.strictEqual(yield* remove(one.url, ann, `entry_${plan.slice(5)}`), 404)
      assert.deepStrictEqual(
        yield* Effect.all(
          [one, two, one, two].map(({ url }) => remove(url, ann)),
          { concurrency: "unbounded" }
        ),
        [204, 204, 204, 204]
      )
      const again = yield* Effect.forEach([1, 2, 3, 4], (n) => tell(n), { concurrency: "unbounded" })
      assert.sameMembers(
        again.map(({ status }) => status),
        [202, 409, 409, 409]
      )

      const pages: Array<Fields> = []
      for (let next = ""; next !== "null";) {
        const { body } = yield* send(`${two.url}/plans/${plan}/inbox?limit=40${next}`, { headers: ann })
        pages.push(...listOf(body, "entries"))
        const cursor = body["next_cursor"] as string | null
        next = cursor === null ? "null" : `&cursor=${cursor}`
      }
      assert.lengthOf(pages, 101)
      assert.sameMembers(
        pages.slice(0, 100).map(({ entry_id }) => entry_id),
        ids
      )
      yield* send(`${one.url}/plans/${plan}/cancel`, { method: "POST", headers: ann })
      const { body } = yield* send(`${two.url}/plans/${plan}`, { headers: ann })
      const { untaken } = body["error"] as { readonly untaken: ReadonlyArray<string> }
      assert.lengthOf(untaken, 100)
      assert.notInclude(untaken, ids[0])
      assert.strictEqual((yield* tell(1)).body["code"], "plan_over")
      assert.strictEqual(yield* remove(one.url, ann, ids[1]), 409)
    }).pipe(Effect.scoped)
  )

  it.live("takes 400,000 characters of texts that wait", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(stores.postgres)(() => [wait("10 minutes"), say("ok")], callers)
      const plan = yield* begin(url, {}, ann)
      const tell = (length: number) =>
        Effect.map(
          post(`${url}/plans/${plan}/inbox`, { type: "text", text: "x".repeat(length) }, ann),
          ({ body, status }) => body["code"] ?? status
        )
      const told = [200_000, 199_999, 2, 1, 1]
      assert.deepStrictEqual(yield* Effect.forEach(told, tell), [202, 202, "inbox_full", 202, "inbox_full"])
      yield* send(`${url}/plans/${plan}/cancel`, { method: "POST", headers: ann })
    }).pipe(Effect.scoped)
  )
})

describe("what waits", () => {
  it.live("is shown to its caller and to admins, by kind and by page, on any replica", () =>
    Effect.gen(function* () {
      const settings = { ...(yield* stores.postgres), ...callers }
      const script = () => [callTool("pick", {}), callTool("pay", {})]
      const [one, two] = [yield* start(script, settings), yield* start(script, settings)]
      const tools = [pick, { name: "pay", input_schema: {}, approval: "always" }]
      for (const [n, { url }] of [one, two, one].entries()) yield* begin(url, { tools, session_id: `s${n}` }, ann)
      const all = yield* waitingOf(two.url, 6, ann)
      assert.sameMembers(
        all.map(({ kind }) => kind),
        ["approval", "result", "approval", "result", "approval", "result"]
      )
      const shown = (query: string, headers: Readonly<Record<string, string>> = ann) =>
        send(`${one.url}/waiting?${query}`, { headers })
      const idsOf = (body: Fields) => listOf(body, "waiting").map(({ task_id }) => task_id)
      for (const kind of ["approval", "result"]) {
        const { body } = yield* shown(`kind=${kind}`)
        assert.deepStrictEqual(
          idsOf(body),
          all.filter((wait) => wait["kind"] === kind).map(({ task_id }) => task_id)
        )
        const { body: top } = yield* shown(`kind=${kind}&limit=2`)
        const { body: rest } = yield* shown(`kind=${kind}&limit=2&cursor=${String(top["next_cursor"])}`)
        assert.deepStrictEqual([...idsOf(top), ...idsOf(rest)], idsOf(body))
        assert.isNull(rest["next_cursor"])
      }
      for (const kind of ["answer", "account"]) assert.deepStrictEqual(idsOf((yield* shown(`kind=${kind}`)).body), [])
      assert.deepStrictEqual(idsOf((yield* shown("", bob)).body), [])
      assert.deepStrictEqual(idsOf((yield* shown("", root)).body), [])
      assert.deepStrictEqual(idsOf((yield* shown("caller=ann", root)).body), idsOf({ waiting: all }))
      assert.deepStrictEqual(idsOf((yield* shown("caller=ann")).body), idsOf({ waiting: all }))
      assert.deepStrictEqual(
        [(yield* shown("caller=ann", bob)).status, (yield* shown("caller=*", bob)).status],
        [403, 403]
      )
      const wrong = [
        ["kind=timer", "kind"],
        ["kind=", "kind"],
        ["kind=result&kind=answer", "kind"],
        ["limit=0", "limit"],
        ["limit=201", "limit"],
        ["limit=1e2", "limit"],
        ["limit=", "limit"],
        ["cursor=nowhere", "cursor"],
        ["cursor=", "cursor"],
        ["cursor=LTE", "cursor"],
        ["caller=a&caller=b", "caller"],
        ["task=1", "task"]
      ]
      for (const [query = "", path] of wrong) {
        const { body, status } = yield* shown(query)
        assert.deepStrictEqual([status, pathsOf(body)], [400, [path]], query)
      }
      const { body: approvals } = yield* send(`${two.url}/approvals?limit=200`, { headers: ann })
      assert.lengthOf(listOf(approvals, "approvals"), 3)
      for (const { plan_id } of all)
        yield* send(`${two.url}/plans/${String(plan_id)}/cancel`, { method: "POST", headers: ann })
      assert.deepStrictEqual(idsOf((yield* shown("")).body), [])
    }).pipe(Effect.scoped)
  )
})
