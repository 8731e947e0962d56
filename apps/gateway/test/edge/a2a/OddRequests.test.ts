import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Config, Effect, Random } from "effect"
import { post, start } from "../../http/RunningGateway.ts"

const seed = 14

const one = <A>(items: ReadonlyArray<A>) =>
  Effect.map(Random.nextIntBetween(0, items.length - 1), (index) => items[index] as A)

const odd: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  1e308,
  "",
  " ",
  "\u0000",
  "\ud83d",
  "x".repeat(600),
  "plan_00000000-0000-4000-8000-000000000000",
  [],
  [null],
  [{}],
  {},
  [{ text: 7 }],
  [{ kind: "text", text: "?" }],
  [{ data: { decision: "maybe" } }],
  [{ raw: "x", url: "y" }],
  { bowline: 7 },
  { bowline: { preferences: { timeout_ms: "1" }, agents: [{ name: "", endpoint: "::" }], idempotent: "yes" } },
  { bowline: { idempotent: true } },
  { acceptedOutputModes: [7] },
  { historyLength: 1.5, blocking: 7, returnImmediately: "x" }
]

const methods = ["SendMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "message/send"].concat(
  ["tasks/get", "tasks/resubscribe", "SendStreamingMessage", "toString", "__proto__", ""],
  ["GetTaskPushNotificationConfig"]
)
const members = ["messageId", "role", "parts", "content", "contextId", "taskId", "metadata", "kind", "__proto__", "\n"]
const params = [
  "message",
  "configuration",
  "id",
  "historyLength",
  "pageSize",
  "pageToken",
  "status",
  "contextId"
].concat(["statusTimestampAfter", "includeArtifacts", "constructor", "\ud83d"])

/** Not `fromEntries`: JSON may name `__proto__`. */
const object = (entries: ReadonlyArray<readonly [string, string]>) =>
  `{${entries.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`

/** A request that is nearly right, so that all of the decoder sees it. */
const draw = Effect.gen(function* () {
  const entries = Effect.fnUntraced(function* (names: ReadonlyArray<string>) {
    const drawn: Array<readonly [string, string]> = []
    for (let count = yield* Random.nextIntBetween(0, 3); count > 0; count--) {
      drawn.push([yield* one(names), JSON.stringify(yield* one(odd))])
    }
    return drawn
  })
  const method = yield* one(methods)
  const isOld = method.includes("/")
  const message = object([
    ["messageId", '"m"'],
    ["role", isOld ? '"user"' : '"ROLE_USER"'],
    ["parts", isOld ? '[{"kind":"text","text":"?"}]' : '[{"text":"?"}]'],
    ...(yield* entries(members))
  ])
  const given = object([["message", message], ["id", '"x"'], ...(yield* entries(params))])
  const body = object([
    ["jsonrpc", '"2.0"'],
    ["id", "1"],
    ["method", JSON.stringify(method)],
    ["params", given],
    ...(yield* entries(["id", "jsonrpc", "method", "params", "x"])).slice(0, yield* Random.nextIntBetween(0, 2))
  ])
  const headers = { [yield* one(["a2a-version", "last-event-id", "accept"])]: yield* one(["", "1.0", "0.3", "x", "é"]) }
  const [path, text] = yield* one([
    ["/a2a", body],
    ["/a2a", body],
    ["/a2a/message:send", given],
    ["/a2a/v1/message:send", given]
  ] as const)
  return { path, text, headers }
})

it.live("no body and no header under /a2a gets a 500: it is answered, or refused in the shape of its binding", () =>
  Effect.gen(function* () {
    const { url } = yield* start(() => [say("ok")])
    const requests = yield* Config.Int("BOWLINE_REQUESTS").pipe(Config.withDefault(100))
    const cases = yield* Random.withSeed(Effect.replicateEffect(draw, requests), seed)
    const codes = yield* Effect.forEach(
      cases,
      Effect.fnUntraced(function* ({ headers, path, text }) {
        const { body, status, text: answer } = yield* post(`${url}${path}`, text, headers)
        const sent = `seed ${seed}: ${path} ${text} ${JSON.stringify(headers)}: ${answer.slice(0, 500)}`
        assert.include(path === "/a2a" ? [200] : [200, 400, 404, 409], status, sent)
        const error = (path.startsWith("/a2a/v1") && status !== 200 ? body : body["error"]) as
          | { readonly code: number; readonly message: string }
          | undefined
        if (status !== 200 || error !== undefined) assert.match(error?.message ?? "", /\S/, sent)
        assert.notInclude([-32603, 500], error?.code, sent)
        return error?.code ?? 0
      }),
      { concurrency: 16 }
    )
    for (const code of [0, -32600, -32601, -32602, -32001, -32003, -32009]) assert.include(codes, code)
  })
)
