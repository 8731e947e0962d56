import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, error, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Console, Effect, Metric } from "effect"
import manifest from "../../package.json" with { type: "json" }
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, start } from "../http/RunningGateway.ts"
import * as Collector from "./Collector.ts"
import * as Conventions from "./Conventions.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const callerSpan = "b7ad6b7169203331"
const traceparent = `00-${traceId}-${callerSpan}-01`

const long = (text: string) => `${text} ${"word ".repeat(450)}`
const history = [1, 2, 3, 4].flatMap((turn) => [
  { role: "user", content: long(`question ${turn}`) },
  { role: "assistant", content: long(`answer ${turn}`) }
])
const tokens = { input_tokens: 12, output_tokens: 5, cached_input_tokens: 0, reasoning_tokens: 0 }

/** A plan in which everything happens, and what its gateway exports of it until it has closed. */
const everything = Effect.fnUntraced(function* (
  settings: Readonly<Record<string, string>> = {},
  headers: Readonly<Record<string, string>> = { traceparent }
) {
  const collector = yield* Collector.serve()
  const peer = yield* ScriptedPeer.serve({ acts: [works("100 millis"), completes("the secret of bob")] })
  const agent = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  const seen = yield* Effect.scoped(
    Effect.gen(function* () {
      const small = { BOWLINE_MODEL: "openai/planner", BOWLINE_CONTEXT_WINDOW: "4000", BOWLINE_RETRY_BASE: "1ms" }
      let step = 0
      const { provider, url } = yield* start(
        ({ system }) => {
          if (system.startsWith("You keep the memory")) return [say("a summary")]
          return (
            [[error(503)], [callTool("bob_ask", { input: "to bob" }), usage(tokens)], [say("the answer")]][step++] ?? []
          )
        },
        { ...collector.settings, ...small, ...settings }
      )
      const { body } = yield* post(`${url}/plan`, { question: "a question", agents: [agent], history }, headers)
      assert.strictEqual(body["state"], "completed")
      return { plan: body, provider: yield* provider.requests.all, peer: yield* peer.requests.all }
    })
  )
  return { ...seen, collector, spans: settings["OTEL_EXPORTER_OTLP_PROTOCOL"] === "" ? [] : yield* collector.spans }
})

const named = (spans: ReadonlyArray<Collector.CollectedSpan>, name: string) =>
  spans.filter((span) => span.name === name)

/** The spans that the requests say that they are a part of. */
const parentsOf = (
  spans: ReadonlyArray<Collector.CollectedSpan>,
  requests: ReadonlyArray<{ readonly headers: Readonly<Record<string, string | undefined>> }>
) =>
  requests.map(({ headers }) => {
    const [, trace, parent, flags] = (headers["traceparent"] ?? "").split("-")
    assert.deepStrictEqual([trace, flags], [traceId, "01"])
    return spans.find(({ spanId }) => spanId === parent)?.name
  })

describe("an exported trace", () => {
  it.live("has the whole plan, below the span of its caller, down to attempts and polls", () =>
    Effect.gen(function* () {
      const { peer, plan, spans } = yield* everything()
      const tree = Collector.treeOf(spans, callerSpan)
      // How often it polls is a matter of time.
      const once = tree.filter((line, at) => line !== tree[at - 1])
      assert.deepStrictEqual(once, [
        "POST /plan",
        "  plan",
        "    step",
        "      compaction",
        "        chat planner",
        "      chat planner",
        "      backoff",
        "      chat planner",
        "      execute_tool bob_ask",
        "        message/send",
        "        tasks/get",
        "    step",
        "      chat planner"
      ])
      assert.deepStrictEqual(
        spans.map(({ resource, traceId }) => [traceId, resource["service.name"]]),
        spans.map(() => [traceId, "bowline"])
      )
      assert.deepStrictEqual(
        named(spans, "plan").map(({ attributes, kind, status }) => ({ attributes, kind, status })),
        [
          {
            attributes: {
              "gen_ai.operation.name": "invoke_agent",
              "gen_ai.agent.name": "bowline",
              "gen_ai.conversation.id": plan["session_id"],
              "gen_ai.request.model": "openai/planner",
              "bowline.plan.id": plan["plan_id"],
              "bowline.caller": "anonymous",
              "bowline.outcome": "completed",
              "bowline.steps": 2,
              "bowline.tool_calls": 1,
              "gen_ai.usage.input_tokens": 12,
              "gen_ai.usage.output_tokens": 5,
              "gen_ai.response.finish_reasons": ["stop"]
            },
            kind: 1,
            status: { code: 1 }
          }
        ]
      )
      const [tool] = named(spans, "execute_tool bob_ask")
      const { "gen_ai.tool.call.id": task, ...called } = tool?.attributes ?? {}
      assert.isTrue(peer.some(({ body }) => body.includes(`"messageId":"${String(task)}"`)))
      assert.deepStrictEqual(called, {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bob_ask",
        "bowline.tool.kind": "peer",
        "bowline.peer.name": "bob",
        "bowline.task.state": "completed"
      })
      const [, failed] = named(spans, "chat planner")
      assert.deepInclude(failed?.attributes, { "gen_ai.operation.name": "chat", "error.type": "server_error" })
      assert.deepStrictEqual(failed?.status, { code: 2, message: "server_error" })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("names the process that it comes from, unless the operator names it", () =>
    Effect.gen(function* () {
      const resourceOf = (settings: Readonly<Record<string, string>>) =>
        Effect.map(everything(settings), ({ spans }) => {
          const resources = new Set(spans.map(({ resource }) => JSON.stringify(resource)))
          assert.strictEqual(resources.size, 1)
          return spans[0]?.resource ?? {}
        })
      const [one, other] = [yield* resourceOf({}), yield* resourceOf({})]
      assert.deepInclude(one, { "service.name": "bowline", "service.version": manifest.version })
      assert.match(String(one["service.instance.id"]), /^[0-9a-f-]{36}$/)
      assert.notStrictEqual(one["service.instance.id"], other["service.instance.id"])
      const own = { "service.name": "gate", "service.version": "9", "service.instance.id": "pod-1" }
      const OTEL_RESOURCE_ATTRIBUTES = Object.entries(own)
        .map((pair) => pair.join("="))
        .join()
      assert.deepInclude(yield* resourceOf({ OTEL_RESOURCE_ATTRIBUTES }), own)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("goes on at the provider and at the peer, below the attempt, the request and the poll", () =>
    Effect.gen(function* () {
      const { peer, provider, spans } = yield* everything()
      assert.deepStrictEqual(
        parentsOf(spans, provider),
        Array.from(provider, () => "chat planner")
      )
      for (const method of ["message/send", "tasks/get"]) {
        const requests = peer.filter(({ body }) => body.includes(`"method":"${method}"`))
        assert.isNotEmpty(requests)
        assert.deepStrictEqual(
          parentsOf(spans, requests),
          requests.map(() => method)
        )
      }
      const parents = provider.map(({ headers }) => headers["traceparent"])
      assert.strictEqual(new Set(parents).size, parents.length)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("has nothing of what was said, unless telemetry.content is set", () =>
    Effect.gen(function* () {
      const said = ["a question", "the answer", "to bob", "secret of bob", "a summary"]
      const { spans } = yield* everything()
      const text = JSON.stringify(spans)
      assert.deepStrictEqual(
        said.filter((words) => text.includes(words)),
        []
      )
      const cwd = yield* folderOf({ "bowline.config.yaml": "telemetry: { content: true }" })
      const shown = yield* everything({ BOWLINE_CONFIG: `${cwd}/bowline.config.yaml` })
      const [plan] = named(shown.spans, "plan")
      assert.deepInclude(plan?.attributes, {
        "gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"a question"}]}]`,
        "gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"the answer"}]}]`
      })
      const [tool] = named(shown.spans, "execute_tool bob_ask")
      assert.deepInclude(tool?.attributes, {
        "gen_ai.tool.call.arguments": `{"input":"to bob"}`,
        "gen_ai.tool.call.result": "the secret of bob"
      })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each([
    ["its caller does not want it", {}, `00-${traceId}-${callerSpan}-00`],
    ["the sampler is off", { OTEL_TRACES_SAMPLER: "always_off" }, traceparent],
    [
      "the sampler wants none of a hundred",
      { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" },
      traceparent
    ],
    ["traces are not exported", { OTEL_TRACES_EXPORTER: "none" }, traceparent]
  ] as const)("is not recorded where %s", ([, settings, traceparent]) =>
    Effect.gen(function* () {
      const { provider, spans } = yield* everything(settings, { traceparent })
      assert.deepStrictEqual(spans, [])
      for (const { headers } of provider) assert.include(headers["traceparent"], traceId)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("begins with the arrival of the plan where the caller has none", () =>
    Effect.gen(function* () {
      const { spans } = yield* everything({}, {})
      const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined)
      assert.deepStrictEqual(
        roots.map(({ name }) => name),
        ["POST /plan"]
      )
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})

describe("the log of a plan", () => {
  it.live(
    "names the request, the plan, its session, its caller and its trace in each line, here and at the collector",
    () =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const writes = { ...globalThis.console, error: (line: string) => void lines.push(line) }
        const settings = { LOG_LEVEL: "info", LOG_FORMAT: "json" }
        const { collector, plan } = yield* Effect.provideService(everything(settings), Console.Console, writes)
        const ids = { plan_id: plan["plan_id"], session_id: plan["session_id"], caller: "anonymous" }
        const ofPlan = lines
          .map((line) => JSON.parse(line) as Readonly<Record<string, string | object>>)
          .filter(({ annotations }) => typeof annotations === "object" && "plan_id" in annotations)
        assert.deepStrictEqual(
          ofPlan.map(({ message }) => message),
          ["provider_retry", "plan_completed"]
        )
        for (const line of ofPlan) {
          assert.deepInclude(line["annotations"], ids)
          assert.property(line["annotations"], "request_id")
          assert.propertyVal(line, "trace_id", traceId)
          assert.match(JSON.stringify(line["span_id"]), /^"[0-9a-f]{16}"$/)
        }
        const collected = (yield* collector.lines).filter(({ attributes }) => "plan_id" in attributes)
        assert.deepStrictEqual(
          collected.map(({ message }) => message),
          ["provider_retry", "plan_completed"]
        )
        for (const { attributes, traceId: trace } of collected) {
          assert.deepInclude(attributes, ids)
          assert.property(attributes, "request_id")
          assert.strictEqual(trace, traceId)
        }
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})

/** What the conventions do not have, and what they have otherwise. */
const typeOf = ({ arrayValue, ...scalar }: Collector.AnyValue): string =>
  arrayValue === undefined
    ? (Object.keys(scalar)[0] ?? "none").replace("Value", "").replace("bool", "boolean")
    : "string[]"

const strangers = (
  attributes: Collector.Attributes,
  { allowed, required }: Conventions.Signal
): ReadonlyArray<string> => {
  const types = new Map(attributes.map(({ key, value }) => [key, typeOf(value)]))
  const [unknown, missing] = [new Set(["gen_ai.operation.name", ...required, ...allowed]), required]
  return [
    ...Array.from(types).flatMap(([key, type]) => {
      // Effect's exporter leaves the unit of a metric among its attributes.
      if (key.startsWith("bowline.") || key === "unit") return []
      const wanted = Conventions.types[key]
      // A double that is whole is written as an integer.
      const isSo = type === wanted || (wanted === "double" && type === "int")
      return unknown.has(key) && isSo ? [] : [`${key} is ${type}`]
    }),
    ...missing.filter((key) => !types.has(key)).map((key) => `${key} is missing`)
  ]
}

describe("the export", () => {
  it.live(
    "sends all signals in Protobuf, with the headers and the attributes that are set, to the URLs that are set",
    () =>
      Effect.gen(function* () {
        const { collector } = yield* everything({
          OTEL_EXPORTER_OTLP_PROTOCOL: "",
          OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%20key,x-other=1",
          OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x-key=of%20traces",
          OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test%20bed",
          OTEL_SERVICE_NAME: "gate"
        })
        const requests = yield* collector.requests.all
        assert.includeMembers(
          requests.map(({ url }) => url.pathname),
          ["/v1/traces", "/v1/metrics"]
        )
        for (const { body, headers, url } of requests) {
          const [key, other] = url.pathname === "/v1/traces" ? ["of traces", undefined] : ["a key", "1"]
          assert.deepStrictEqual([headers["x-key"], headers["x-other"]], [key, other])
          assert.strictEqual(headers["content-type"], "application/x-protobuf")
          assert.notProperty(headers, "traceparent")
          assert.include(body, "test bed")
          assert.include(body, "gate")
        }
        const { metrics, spans } = yield* collector.decoded
        assert.includeMembers(
          spans.map(({ name }) => name),
          ["POST /plan", "plan", "chat planner", "execute_tool bob_ask"]
        )
        const names = [
          ...spans.flatMap(({ attributes }) => attributes.map(({ key }) => key)),
          ...metrics.map(({ name }) => name)
        ]
        assert.deepStrictEqual(
          new Set(names.filter((name) => name.startsWith("gen_ai.") && !Conventions.former.has(name))),
          new Set()
        )
        assert.includeMembers(names, ["gen_ai.client.operation.duration", "gen_ai.client.token.usage"])
      }).pipe(
        Effect.scoped,
        Effect.provide(LoopbackNetwork.layer),
        Effect.provideService(Metric.MetricRegistry, new Map())
      )
  )

  it.live(
    "has the newest conventions for generative AI, and none of the former names, where somebody asks for them",
    () =>
      Effect.gen(function* () {
        const { collector } = yield* everything({
          OTEL_EXPORTER_OTLP_PROTOCOL: "",
          OTEL_SEMCONV_STABILITY_OPT_IN: "http,gen_ai_latest_experimental"
        })
        const { metrics, spans } = yield* collector.decoded
        const ofGenAi = spans.flatMap((span) => {
          const { "gen_ai.operation.name": operation } = Collector.attributesOf(span.attributes)
          const signal = Conventions.spans[String(operation)]
          return signal === undefined ? [] : [{ ...span, operation: String(operation), signal }]
        })
        assert.deepStrictEqual(
          new Set(ofGenAi.map(({ name }) => name)),
          new Set(["invoke_agent bowline", "chat planner", "execute_tool bob_ask"])
        )
        for (const { attributes, kind, name, operation, signal } of ofGenAi) {
          assert.deepStrictEqual(strangers(attributes, signal), [], name)
          assert.strictEqual(kind, signal.kind, name)
          assert.strictEqual(name, `${operation} ${String(Collector.attributesOf(attributes)[signal.name])}`)
        }
        // The summary is of the whole; the steps behind it have less.
        assert.sameMembers(
          ofGenAi.flatMap(({ attributes, operation }) =>
            operation === "chat" ? [Collector.attributesOf(attributes)["gen_ai.conversation.compacted"]] : []
          ),
          [false, true, true, true]
        )
        const told = metrics.filter(({ name }) => name.startsWith("gen_ai."))
        assert.sameMembers(
          told.map(({ name }) => name),
          Object.keys(Conventions.metrics)
        )
        for (const { gauge, histogram, name, sum, unit } of told) {
          const signal = Conventions.metrics[name]
          const points = signal?.instrument === "sum" ? sum : histogram
          assert.deepStrictEqual([unit, gauge], [signal?.unit, undefined], name)
          for (const { attributes } of points?.dataPoints ?? assert.fail(name)) {
            if (signal !== undefined) assert.deepStrictEqual(strangers(attributes, signal), [], name)
          }
        }
      }).pipe(
        Effect.scoped,
        Effect.provide(LoopbackNetwork.layer),
        Effect.provideService(Metric.MetricRegistry, new Map())
      )
  )
})
