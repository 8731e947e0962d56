import { CallerName } from "@bowline/domain/caller/CallerName"
import { CallerTokens, OnBehalfOf } from "@bowline/runtime/unstable/auth/CallerTokens"
import { McpClient, type McpAnswer, type McpCall, type McpQuestion } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { json, text, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt } from "./call.ts"

const memory = SdkMcpClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))

const Request = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Json),
    method: Schema.String,
    params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  })
)

/** What a server says of its task when it is asked for the nth time, from 1: an error of HTTP, or the members of the task. */
type Standing = number | { readonly status: string; readonly [member: string]: Schema.Json }

const result = { content: [{ type: "text", text: "done" }], structuredContent: { sky: "clear" } }
const times = { createdAt: "2026-07-28T00:00:00Z", lastUpdatedAt: "2026-07-28T00:00:00Z" }
const session = { "mcp-session-id": "s-1" }
const serverInfo = { name: "tasks", version: "1.0.0" }
const name = "research"

/** In 2025-11-25 the tool asks for a task, and the result is asked for on its own. */
const legacy = {
  tool: { name, inputSchema: { type: "object" }, execution: { taskSupport: "required" } },
  initialize: {
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } }, cancel: {} } },
    serverInfo
  },
  created: { task: { taskId: "t-1", status: "working", ttl: null, pollInterval: 1_000, ...times } },
  standing: (standing: object) => ({ taskId: "t-1", ttl: null, pollInterval: 1_000, ...times, ...standing })
}

/** In 2026-07-28 the server makes a task of a call when it likes, and the task brings its result. */
const modern = {
  tool: { name, inputSchema: { type: "object" } },
  discover: {
    resultType: "complete",
    supportedVersions: ["2026-07-28"],
    capabilities: { tools: {}, extensions: { "io.modelcontextprotocol/tasks": {} } },
    serverInfo,
    ttlMs: 0,
    cacheScope: "private"
  },
  created: { resultType: "task", taskId: "t-1", status: "working", ttlMs: null, pollIntervalMs: 1_000, ...times },
  standing: (standing: { readonly status: string }) => ({
    resultType: "complete",
    taskId: "t-1",
    ttlMs: null,
    pollIntervalMs: 1_000,
    ...times,
    ...(standing.status === "completed" && { result: { resultType: "complete", ...result } }),
    ...standing
  })
}

interface Served {
  readonly requests: Array<{ readonly method: string; readonly params: Readonly<Record<string, Schema.Json>> }>
}

const hostOf =
  (era: "legacy" | "modern", standingOf: (asked: number) => Standing, { requests }: Served): Host =>
  ({ body, method: verb }) => {
    const request = Schema.decodeOption(Request)(body)
    if (verb !== "POST" || request._tag === "None") return Effect.succeed(text(405, ""))
    const { id = null, method, params = {} } = request.value
    requests.push({ method, params })
    const answer = (result: object) => {
      const response = json(200, { jsonrpc: "2.0", id, result })
      return Effect.succeed({ ...response, headers: { ...response.headers, ...(era === "legacy" && session) } })
    }
    switch (method) {
      case "server/discover":
        return era === "modern" ? answer(modern.discover) : Effect.succeed(text(400, ""))
      case "initialize":
        return answer(legacy.initialize)
      case "tools/list":
        return answer({
          tools: [era === "modern" ? modern.tool : legacy.tool],
          ...(era === "modern" && { resultType: "complete", ttlMs: 0, cacheScope: "private" })
        })
      case "tools/call":
        return answer(era === "modern" ? modern.created : legacy.created)
      case "tasks/get": {
        const standing = standingOf(requests.filter(({ method }) => method === "tasks/get").length)
        if (typeof standing === "number") return Effect.succeed(text(standing, ""))
        return answer(era === "modern" ? modern.standing(standing) : legacy.standing(standing))
      }
      case "tasks/result":
        return answer(result)
      case "tasks/update":
        return answer({ resultType: "complete" })
      case "tasks/cancel":
        return answer(era === "modern" ? { resultType: "complete" } : legacy.standing({ status: "cancelled" }))
      default:
        return Effect.succeed(text(202, ""))
    }
  }

const turns = Effect.promise(() => new Promise((resolve) => setImmediate(resolve))).pipe(Effect.repeat({ times: 20 }))

/** Calls the tool, and lets virtual time pass until the call has ended, or for so many seconds. */
const call = Effect.fnUntraced(function* (
  era: "legacy" | "modern",
  standingOf: (asked: number) => Standing,
  seconds = 120,
  rest: Pick<McpCall, "answer" | "isHandedOver" | "resumes"> = {}
) {
  const served: Served = { requests: [] }
  const { url } = yield* (yield* Network).serve(hostOf(era, standingOf, served))
  const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
  const told: Array<string> = []
  const fiber = yield* Effect.forkChild(
    callTool(connection, name, {}, (message) => Effect.sync(() => void told.push(message)), rest),
    { startImmediately: true }
  )
  yield* turns
  for (let second = 0; second < seconds && fiber.pollUnsafe() === undefined; second++) {
    yield* TestClock.adjust("1 second")
    yield* turns
  }
  const count = (method: string) => served.requests.filter((request) => request.method === method).length
  return { fiber, told, count, requests: served.requests }
})

const working = { status: "working", statusMessage: "Gathering sources" }
const completed = { status: "completed" }

describe.each(["legacy", "modern"] as const)("a task of a %s server", (era) => {
  it.effect("is asked for in the pauses that its server wants, and its result is the call's", () =>
    Effect.gen(function* () {
      const { count, fiber, requests, told } = yield* call(era, (asked) => (asked < 3 ? working : completed))
      const { state, structured, text } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([state, text, structured], ["completed", "done", { sky: "clear" }])
      assert.strictEqual(count("tasks/get"), 3)
      assert.strictEqual(count("tasks/cancel"), 0)
      assert.include(told, "Gathering sources")
      assert.isTrue(requests.every(({ method, params }) => !method.startsWith("tasks/") || params["taskId"] === "t-1"))
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is cancelled at once when the call is interrupted", () =>
    Effect.gen(function* () {
      const { count, fiber } = yield* call(era, () => working, 3)
      assert.strictEqual(count("tasks/cancel"), 0)
      yield* Fiber.interrupt(fiber)
      yield* turns
      assert.strictEqual(count("tasks/cancel"), 1)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect(
    "is asked for again after a failure that may pass, and given up after 30 s of them, or at once after another",
    () =>
      Effect.gen(function* () {
        const passing = yield* call(era, (asked) => (asked < 5 ? 503 : completed))
        assert.strictEqual((yield* Fiber.join(passing.fiber)).state, "completed")
        const gone = yield* call(era, () => 503)
        const { message } = yield* Effect.flip(Fiber.join(gone.fiber))
        assert.strictEqual(message, "The server has not said for 30 seconds how its task is doing")
        assert.isAtMost(gone.count("tasks/get"), 35)
        assert.strictEqual(gone.count("tasks/cancel"), 1)
        const refused = yield* call(era, () => 403)
        // The server has the call, whatever comes of questions for its task.
        const failure = yield* Effect.flip(Fiber.join(refused.fiber))
        assert.deepNestedInclude(failure, { "reason._tag": "auth", isTaken: true })
        assert.strictEqual(refused.count("tasks/get"), 1)
      }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect(
    "that asks for input ends as input-required, and is cancelled; one that its server cancels is canceled",
    () =>
      Effect.gen(function* () {
        const asking = yield* call(era, () => ({ status: "input_required", inputRequests: {} }))
        assert.strictEqual((yield* Fiber.join(asking.fiber)).state, "input-required")
        assert.strictEqual(asking.count("tasks/cancel"), 1)
        const ended = yield* call(era, () => ({ status: "cancelled", statusMessage: "too expensive" }))
        const { state, text } = yield* Fiber.join(ended.fiber)
        assert.deepStrictEqual([state, text], ["canceled", "too expensive"])
      }).pipe(Effect.scoped, Effect.provide(memory))
  )
})

describe.each(["legacy", "modern"] as const)("a task of a %s server, whose caller's token is over", (era) => {
  let isThere = true
  const tokens = Layer.succeed(CallerTokens, {
    areKept: true,
    keep: () => Effect.succeed(true),
    newest: () => Effect.sync(() => (isThere ? Option.some(Redacted.make("of.the.caller")) : Option.none())),
    lookAgain: () => Effect.void,
    tell: () => Effect.void,
    tellLeft: Effect.void
  })
  const withTokens = SdkMcpClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer), Layer.provide(tokens))

  it.effect("is left alone, and asked for on when the caller has come: the call is made once", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const given = () => Effect.succeed(json(200, { access_token: "t", token_type: "Bearer", expires_in: 1 }))
      const { url: token_url } = yield* network.serve(given)
      const served: Served = { requests: [] }
      const { url } = yield* network.serve(hostOf(era, (asked) => (asked < 4 ? working : completed), served))
      const auth = { type: "token_exchange", token_url } as const
      const connection = yield* (yield* McpClient).connect({ ...serverAt(url), auth }, direct)
      const attempt = Effect.fnUntraced(function* (resumes?: string) {
        const making = callTool(connection, name, {}, undefined, resumes === undefined ? {} : { resumes })
        const fiber = yield* Effect.forkChild(making, { startImmediately: true })
        yield* turns
        for (let second = 0; second < 20 && fiber.pollUnsafe() === undefined; second++) {
          if (second === 2 && resumes === undefined) isThere = false
          yield* TestClock.adjust("1 second")
          yield* turns
        }
        return fiber
      })
      const { isTaken, reason } = yield* Effect.flip(Fiber.join(yield* attempt()))
      assert.deepInclude(reason, { _tag: "account_required", account: null })
      assert.isTrue(isTaken)
      isThere = true
      const mark = reason._tag === "account_required" ? reason.mark : undefined
      const { text } = yield* Fiber.join(yield* attempt(mark))
      assert.strictEqual(text, "done")
      const count = (method: string) => served.requests.filter((request) => request.method === method).length
      assert.deepStrictEqual([count("tools/call"), count("tasks/cancel")], [1, 0])
    }).pipe(Effect.provideService(OnBehalfOf, CallerName.make("corp:alice")), Effect.scoped, Effect.provide(withTokens))
  )
})

describe("a task of 2026-07-28 that asks", () => {
  const question = { message: "For how many days?", schema: { type: "object", properties: {} } }
  const params = { mode: "form", message: question.message, requestedSchema: question.schema }
  const inputRequests = { days: { method: "elicitation/create", params } }
  const answered = { days: { action: "accept", content: { days: 2 } } }
  // The server shows the question for a while when it has the answer already.
  const standingOf = (asked: number) => (asked < 3 ? { status: "input_required", inputRequests } : completed)

  it.effect("is told the answer once, and asked for on", () =>
    Effect.gen(function* () {
      const asked: Array<McpQuestion> = []
      const answer = (given: McpQuestion) => {
        asked.push(given)
        return Effect.succeed(answered.days as McpAnswer)
      }
      const { count, fiber, requests } = yield* call("modern", standingOf, 120, { answer })
      assert.strictEqual((yield* Fiber.join(fiber)).text, "done")
      assert.deepStrictEqual([asked.length, count("tasks/get"), count("tasks/cancel")], [1, 3, 0])
      assert.deepInclude(asked[0], question)
      const updates = requests.filter(({ method }) => method === "tasks/update")
      assert.deepStrictEqual(
        updates.map(({ params: { inputResponses, taskId } }) => [taskId, inputResponses]),
        [["t-1", answered]]
      )
    }).pipe(Effect.scoped, Effect.provide(memory))
  )

  it.effect("is left running for the next process, which tells it the answer, and else cancelled", () =>
    Effect.gen(function* () {
      let mark = ""
      const answer = (given: McpQuestion) => {
        mark = given.mark ?? ""
        return Effect.never
      }
      const handed = yield* call("modern", standingOf, 3, { answer, isHandedOver: () => true })
      yield* Fiber.interrupt(handed.fiber)
      yield* turns
      assert.strictEqual(handed.count("tasks/cancel"), 0)
      const left = yield* call("modern", standingOf, 3, { answer })
      yield* Fiber.interrupt(left.fiber)
      yield* turns
      assert.strictEqual(left.count("tasks/cancel"), 1)
      const answers = { answer: () => Effect.succeed(answered.days as McpAnswer), resumes: mark }
      const next = yield* call("modern", () => completed, 120, answers)
      assert.strictEqual((yield* Fiber.join(next.fiber)).text, "done")
      assert.deepStrictEqual([next.count("tools/call"), next.count("tasks/update")], [0, 1])
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})

it.effect("a task whose session its server has forgotten fails the call, which is not made again", () =>
  Effect.gen(function* () {
    const { count, fiber } = yield* call("legacy", () => 404)
    assert.deepNestedInclude(yield* Effect.flip(Fiber.join(fiber)), { "reason._tag": "http" })
    assert.deepStrictEqual([count("tools/call"), count("initialize")], [1, 1])
  }).pipe(Effect.scoped, Effect.provide(memory))
)

it.effect("a task of 2026-07-28 that fails has the error of its server, which hears that tasks are understood", () =>
  Effect.gen(function* () {
    const error = { code: -32_000, message: "no sources" }
    const { count, fiber, requests } = yield* call("modern", () => ({ status: "failed", error }))
    const failed = yield* Effect.flip(Fiber.join(fiber))
    assert.deepNestedInclude(failed, { "reason._tag": "rpc", "reason.code": -32_000 })
    assert.include(failed.message, "no sources")
    assert.strictEqual(count("tasks/cancel"), 0)
    const params = requests.find(({ method }) => method === "tools/call")?.params
    assert.deepNestedInclude(params, {
      "_meta.io\\.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } }
    })
  }).pipe(Effect.scoped, Effect.provide(memory))
)
