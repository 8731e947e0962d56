import { completes } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { operationsOf } from "./Operations.ts"
import { post, send, startOn, stores } from "./RunningGateway.ts"

const keys = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob",
  // Plans stay as they are, however long the test takes.
  BOWLINE_PARK_AFTER: "never",
  BOWLINE_SECRET_KEY: Buffer.alloc(32, 1).toString("base64")
}
const ann = { authorization: "Bearer key-of-ann" }
const bob = { authorization: "Bearer key-of-bob" }

const script: Script = (asked) =>
  question(asked) === "pay?" && results(asked).length === 0 ? [callTool("rigger_pay", { input: "7" })] : [say("done")]

/** What a request for something of another caller is made of, and how it is refused. */
interface Case {
  readonly body?: object
  readonly refusal?: readonly [status: number, code: string | undefined]
}

/** Every operation with an id in its path. The last ones change what the others need. */
const cases: Readonly<Record<string, Case>> = {
  "GET /plans/{id}": {},
  "GET /sessions/{id}": {},
  "GET /sessions/{id}/messages": {},
  "POST /credentials/{id}/clear": { refusal: [403, "forbidden"] },
  "GET /ui/chat/{id}/stream": { refusal: [204, undefined] },
  "GET /plans/{id}/webhooks": {},
  "POST /plans/{id}/webhooks/{delivery_id}/retry": {},
  "DELETE /effects/{id}": { refusal: [403, "forbidden"] },
  "DELETE /accounts/{name}": { refusal: [404, "not_found"] },
  "DELETE /keys/{id}": { refusal: [403, "forbidden"] },
  "GET /files/{id}": {},
  "GET /files/{id}/content": {},
  "DELETE /files/{id}": {},
  "GET /v1/files/{id}": {},
  "GET /v1/files/{id}/content": {},
  "DELETE /v1/files/{id}": {},
  "GET /schedules/{id}": {},
  "GET /schedules/{id}/firings": {},
  "PATCH /schedules/{id}": { body: { paused: true } },
  "POST /schedules/{id}/fire": {},
  "DELETE /schedules/{id}": {},
  "GET /plans/{id}/inbox": {},
  "DELETE /plans/{id}/inbox/{entry_id}": {},
  "POST /plans/{id}/inbox": { body: { type: "text", text: "really?", else: "reject" } },
  "POST /plans/{id}/approvals/{task_id}": { body: { decision: "approve" } },
  "GET /plans/{id}/events": {},
  "POST /plans/{id}/feedback": { body: { score: -1 } },
  "GET /plans/{id}/feedback": {},
  "GET /plans/{id}/export": {},
  "POST /plans/{id}/fork": { body: { preferences: { max_steps: 1 } } },
  "POST /plans/{id}/cancel": {},
  "DELETE /ui/chat/{id}/stream": { refusal: [204, undefined] },
  "GET /v1/chat/completions/{id}": {},
  "GET /v1/chat/completions/{id}/messages": {},
  "POST /v1/chat/completions/{id}": { body: { metadata: { desk: "7" } } },
  "DELETE /v1/chat/completions/{id}": {},
  "GET /v1/conversations/{id}": {},
  "GET /v1/conversations/{id}/items": {},
  "GET /v1/conversations/{id}/items/{item_id}": {},
  "DELETE /v1/conversations/{id}/items/{item_id}": {},
  "POST /v1/conversations/{id}/items": { body: { items: [{ role: "user", content: "?" }] } },
  "POST /v1/conversations/{id}": { body: { metadata: { desk: "7" } } },
  "DELETE /v1/conversations/{id}": {},
  "GET /v1/responses/{id}": {},
  "GET /v1/responses/{id}/input_items": {},
  "POST /v1/responses/{id}/cancel": {},
  "DELETE /v1/responses/{id}": {},
  "POST /sessions/{id}/compact": {},
  "POST /sessions/{id}/revert": { body: { to_message_id: "" } },
  "DELETE /sessions/{id}": {}
}

/** Every parameter beside those of paths. Of these, `caller`, `session_id` and `idempotency-key` name what may be another caller's. */
const parameters = ["after", "caller", "cursor", "limit", "session_id", "state"].concat(
  ["idempotency-key", "last-event-id", "error_code", "model", "q", "since", "until"],
  ["agent", "feedback", "kind", "label", "metadata", "name", "preset", "reason", "tool"],
  [
    "x-bowline-hops",
    "x-bowline-via",
    "end_plans",
    "order",
    "starting_after",
    "stream",
    "from",
    "to",
    "by",
    "link",
    "purpose",
    "token"
  ]
)

describe("what belongs to another caller", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`is not found on any route, and stays as it is (${name})`, () =>
      Effect.gen(function* () {
        const { url: peer } = yield* ScriptedPeer.serve({ acts: [completes()] })
        const { url } = yield* startOn(store)(script, keys)
        const { operations } = yield* operationsOf(url)
        // Models, cards and what the gateway is as a client belong to nobody; whoever comes back from a server is known by a cookie.
        const withId = operations.filter(
          ({ path }) => path.includes("{") && !/^\/(v1\/models|a2a\/agents|accounts\/(callback|client))\//.test(path)
        )
        assert.sameMembers(
          withId.map(({ method, path }) => `${method} ${path}`),
          Object.keys(cases)
        )
        const named = operations.flatMap((operation) => operation.parameters.filter((one) => one.in !== "path"))
        assert.sameMembers([...new Set(named.map((one) => one.name))], parameters)

        const asked = { question: "?", session_id: "ann's" }
        const key = { "idempotency-key": "one" }
        const { body: first } = yield* post(`${url}/plan`, asked, { ...ann, ...key })
        const skills = [{ id: "pay", approval: "always" }]
        const agents = [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }]
        const webhooks = [{ url: "http://127.0.0.1:1/", secret: "whsec_cGxhbnRlZA==", events: ["approval.requested"] }]
        const payment = { question: "pay?", session_id: "ann's", agents, webhooks }
        const paying = yield* Effect.forkChild(post(`${url}/plan`, payment, { ...ann, accept: "application/json" }))
        const read = (path: string, headers = ann) => Effect.map(send(url + path, { headers }), ({ text }) => text)
        const text = yield* Effect.repeat(read("/approvals"), {
          until: (text) => text.includes("task_id"),
          schedule: Schedule.spaced("20 millis")
        })
        const idIn = (pattern: RegExp, text: string) => pattern.exec(text)?.[1] ?? assert.fail(text)
        const plan = idIn(/"plan_id":"([^"]+)"/, text)
        const task = idIn(/"task_id":"([^"]+)"/, text)
        const delivery = idIn(/"delivery_id":"([^"]+)"/, yield* read(`/plans/${plan}/webhooks`))
        const session = String(first["session_id"])
        const { body: accepted } = yield* post(`${url}/plans/${plan}/inbox`, { type: "text", text: "more" }, ann)
        const entry = String(accepted["entry_id"])
        const { body: answered } = yield* post(`${url}/v1/responses`, { model: "bowline", input: "?" }, ann)
        const response = String(answered["id"])
        const chatting = { model: "bowline", messages: [{ role: "user", content: "?" }], store: true }
        const { body: chatted } = yield* post(`${url}/v1/chat/completions`, chatting, ann)
        const completion = String(chatted["id"])
        const texts = ["one", "two"].map((content) => ({ role: "user", content }))
        const { body: begun } = yield* post(`${url}/v1/conversations`, { items: texts }, ann)
        const conversation = String(begun["id"])
        const item = idIn(/"last_id":"([^"]+)"/, yield* read(`/v1/conversations/${conversation}/items?order=asc`))
        const message = idIn(/"message_id":"([^"]+)"/, yield* read("/sessions/ann's/messages"))
        const upload = Effect.fnUntraced(function* (text: string) {
          const form = new FormData()
          form.append("file", new File([text], "knots.txt", { type: "text/plain" }))
          const { body } = yield* send(`${url}/files`, { method: "POST", headers: ann, body: form })
          return String(body["file_id"])
        })
        const file = yield* upload("knots")
        const openAiFile = yield* upload("more knots")
        const daily = { name: "daily", when: { every_ms: 86_400_000 }, plan: { question: "?" } }
        const { body: made } = yield* post(`${url}/schedules`, daily, ann)
        const schedule = String(made["schedule_id"])
        const looks = ["/plans", "/sessions", "/approvals", `/plans/${plan}`, `/sessions/${session}`].concat(
          `/plans/${String(first["plan_id"])}/events`,
          `/sessions/${session}/messages`,
          `/v1/responses/${response}`,
          `/v1/conversations/${conversation}`,
          `/v1/conversations/${conversation}/items`,
          "/v1/chat/completions",
          `/v1/chat/completions/${completion}`,
          `/plans/${String(first["plan_id"])}/feedback`,
          "/files",
          "/schedules",
          `/schedules/${schedule}/firings`
        )
        const look = Effect.forEach(looks, (path) => read(path))
        const before = yield* look

        const request = (operation: string, headers: Readonly<Record<string, string>>, sessionId: string) => {
          const [method = "", path = ""] = operation.split(" ")
          const others = {
            credentials: "openai",
            effects: "rigger_pay",
            keys: "key_of_ann",
            files: file,
            schedules: schedule
          }
          const v1s = {
            "v1/chat": completion,
            "v1/conversations": conversation,
            "v1/files": openAiFile,
            "v1/responses": response
          }
          const ids = { plans: plan, sessions: sessionId, ui: sessionId, ...v1s, ...others }
          const [, id = ""] = Object.entries(ids).find(([start]) => path.startsWith(`/${start}/`)) ?? []
          const named = { id, task_id: task, entry_id: entry, item_id: item, delivery_id: delivery }
          const target = Object.entries(named).reduce(
            (path, [name, value]) => path.replace(`{${name}}`, encodeURIComponent(value)),
            url + path
          )
          const { body } = cases[operation] ?? {}
          const sent = body && { ...body, ...("to_message_id" in body && { to_message_id: message }) }
          return send(target, {
            method,
            headers: { ...headers, ...(sent && { "content-type": "application/json" }) },
            ...(sent && { body: JSON.stringify(sent) })
          })
        }
        for (const [operation, { refusal = [404, "not_found"] }] of Object.entries(cases)) {
          for (const sessionId of [session, "ann's"]) {
            const { body, status } = yield* request(operation, bob, sessionId)
            const { code } = "error" in body ? (body["error"] as typeof body) : body
            assert.deepStrictEqual([status, code], [...refusal], operation)
          }
        }
        for (const id of [session, "ann's"]) {
          assert.strictEqual((yield* send(`${url}/plans?session_id=${id}`, { headers: bob })).status, 404)
        }
        for (const list of ["approvals", "plans", "waiting", "usage"]) {
          for (const caller of ["ann", "*"]) {
            assert.strictEqual((yield* send(`${url}/${list}?caller=${caller}`, { headers: bob })).status, 403)
          }
        }
        for (const list of ["plans", "sessions", "approvals", "waiting", "files", "schedules"]) {
          assert.include(yield* read(`/${list}`, bob), `"${list}":[]`)
        }
        // The same key and the same names are others of another caller.
        const { body: own } = yield* post(`${url}/plan`, asked, { ...bob, ...key })
        assert.notStrictEqual(own["plan_id"], first["plan_id"])
        const { body: other } = yield* post(`${url}/plan`, { ...asked, session_id: session }, bob)
        assert.lengthOf([...new Set([session, own["session_id"], other["session_id"]])], 3)
        assert.deepStrictEqual(yield* look, before)

        // Each of these requests is one that its owner may make.
        for (const [operation, { refusal }] of Object.entries(cases)) {
          if (operation === "GET /plans/{id}/events") yield* Fiber.join(paying)
          const { status, text } = yield* request(operation, ann, "ann's")
          if (refusal === undefined) assert.isBelow(status, 300, `${operation}: ${text}`)
        }
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }
})
