import { PendingApproval } from "@bowline/domain/plan/Approval"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { entryOf, ReplicaClient, type Question, type Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import type { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import type { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import type { Plans } from "@bowline/runtime/plan/Plans"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Effect, Layer, Schema, Stream } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { Targets } from "../../src/push/Targets.ts"
import { Webhooks } from "../../src/push/Webhooks.ts"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { Schedules } from "@bowline/runtime/unstable/schedule/Schedules"
import { PushNotifications } from "../../src/edge/a2a/PushNotifications.ts"
import { GatewayConfig } from "../../src/config/GatewayConfig.ts"
import * as HttpGateway from "../../src/route/HttpGateway.ts"
import * as A2aStart from "./A2aStart.ts"
import * as A2aTask from "./A2aTask.ts"
import { accepted, textOf } from "./Answers.ts"
import * as CallerRates from "./CallerRates.ts"
import * as ChatStart from "./ChatStart.ts"
import * as Keys from "./Keys.ts"
import * as McpStart from "./McpStart.ts"
import * as MemoryServer from "./MemoryServer.ts"
import * as PlanStart from "./PlanStart.ts"
import * as ResponseStart from "./ResponseStart.ts"

const Calls = Schema.Array(
  Schema.Struct({
    plan_id: PlanId,
    task_id: TaskId,
    kind: Schema.optionalKey(Schema.Literals(["approval", "result", "answer"])),
    tool: Schema.NullOr(Schema.String),
    input: Schema.Json
  })
)
const Approvals = Schema.fromJsonString(Schema.Struct({ approvals: Schema.Array(PendingApproval) }))
const Waiting = Schema.fromJsonString(Schema.Struct({ waiting: Calls }))
/** A bug of the routes: another service in the place of the one that they use. */
export type Plant = Layer.Layer<
  never,
  never,
  Plans | PlanFollower | PlanStreams | TaskStore | GatewayConfig | RateLimiter.RateLimiterStore
>

/** The ways in which a caller may ask. */
export type Way =
  | "stream"
  | "json"
  | "call"
  | "chat"
  | "whole chat"
  | "response"
  | "whole response"
  | "task"
  | "sent task"
  | "subscribed task"

const ways: ReadonlyArray<readonly [Way, ...ReadonlyArray<Way>]> = [
  ["stream", "stream", "json"],
  ["chat", "response"],
  ["task", "sent task", "subscribed task"]
]

/** What is drawn behind a way. */
const otherwise: { readonly [way in Way]?: Way } = { chat: "whole chat", response: "whole response" }

/** Other protocols cannot say how long a plan waits. */
const canWait = ({ body }: Question): boolean => JSON.stringify(body).includes("wait_timeout_ms")

/** By the number in the name of its plan; within that the seed draws it, from a stream of its own. Few questions can be asked by MCP: half of them are. */
const wayOf = (question: Question, random: Site["process"]["random"]): Way => {
  const [, name = "", number = 0] = /FACT-(\D*(\d+))/.exec(JSON.stringify(question.body)) ?? []
  const own = random.of(`way of ${name}`)
  if (McpStart.canAsk(question) && !canWait(question) && own.chance(50)) return "call"
  const way = own.pick<Way>(ways[canWait(question) ? 0 : Number(number) % ways.length] ?? ["stream"])
  return own.chance(30) ? (otherwise[way] ?? way) : way
}

/** What callers hear. */
export const makeHeard = () => ({
  answers: new Array<McpStart.HeardAnswer>(),
  results: new Array<PlanStart.HeardResult>(),
  chats: new Array<ChatStart.HeardChat>(),
  completions: new Array<ChatStart.HeardCompletion>(),
  responses: new Array<ResponseStart.HeardResponse>(),
  tasks: new Array<A2aTask.HeardTask>(),
  cancels: new Array<A2aTask.HeardCancel>(),
  keys: Keys.makeHeard()
})
export type Heard = ReturnType<typeof makeHeard>

/** What must hold of it. */
export const rulesOf = ({ answers, cancels, chats, completions, keys, responses, results, tasks }: Heard) => ({
  answers: McpStart.rule(answers),
  results: PlanStart.rule(results),
  chats: ChatStart.rule(chats),
  completions: ChatStart.wholeRule(completions),
  responses: ResponseStart.rule(responses),
  tasks: A2aTask.rule(tasks),
  cancels: A2aTask.cancelRule(cancels),
  keys: Keys.rule(keys),
  rates: CallerRates.rule(keys.requests)
})

export interface Planted {
  /** A bug. */
  readonly plant?: Plant
  /** In which way all callers ask. */
  readonly way?: Way
  /** Whether all callers have keys, and may ask a few times a second. */
  readonly hasKeys?: boolean | undefined
}

/** How the gateway is configured where it is open, and where callers have keys. */
export interface Configs {
  readonly open: GatewayConfig["Service"]
  readonly keyed: GatewayConfig["Service"]
}

const Stored = Schema.fromJsonString(Schema.Struct({ file_id: FileId }))
const AcceptedText = Schema.fromJsonString(Schema.Struct({ plan_id: PlanId }))

/** How one caller reaches a replica over its wire. */
const clientOf = (
  site: Site,
  heard: Heard,
  way: Way | undefined,
  wire: MemoryServer.Wire["Service"]
): ReplicaClient["Service"] => {
  const { random } = site.world.process
  const ask = (...given: Parameters<typeof wire.ask>) => Effect.flatMap(wire.ask(...given), accepted)
  const post = (path: string, body?: Schema.Json) =>
    ask(
      { method: "POST", path, headers: body === undefined ? {} : { "content-type": "application/json" } },
      body === undefined ? "" : JSON.stringify(body)
    )
  const enter = (plan: PlanId, entry: Schema.JsonObject, key: string) => {
    const headers = { "content-type": "application/json", "idempotency-key": key }
    const entering = ask({ method: "POST", path: `/plans/${plan}/inbox`, headers }, JSON.stringify(entry))
    return Effect.scoped(Effect.flatMap(entering, textOf))
  }
  const read = PlanStart.read(wire)
  const a2a = A2aStart.make(site, wire, heard, read)
  const response = ResponseStart.make(site, wire, heard.responses, read)
  const mcp = McpStart.make(site, wire, heard.answers, random.of("wait of MCP").int(0, 20_000), read)
  const starts: Readonly<Record<Way, ReplicaClient["Service"]["start"]>> = {
    stream: PlanStart.streamed(wire),
    call: mcp.start,
    json: PlanStart.whole(wire, heard.results, read),
    chat: ChatStart.make(site, wire, heard.chats, read),
    "whole chat": ChatStart.whole(wire, heard.completions, read),
    response: response.start,
    "whole response": response.whole,
    task: a2a.streamed,
    "sent task": a2a.sent,
    "subscribed task": a2a.subscribed
  }
  return {
    start: (question, audience) => starts[way ?? wayOf(question, random)](question, audience),
    read,
    cancel: (plan) => {
      if (heard.answers.some((answer) => answer.plan === plan)) return mcp.cancel(plan)
      if (heard.tasks.some((task) => task.plan === plan)) return a2a.cancel(plan)
      if (heard.responses.some((response) => response.plan === plan)) return response.cancel(plan)
      return Effect.scoped(Effect.asVoid(Effect.flatMap(post(`/plans/${plan}/cancel`), textOf)))
    },
    say: (plan, text, key) =>
      Effect.flatMap(enter(plan, { type: "text", ...text }, key), (told) =>
        Effect.map(Effect.orDie(Schema.decodeUnknownEffect(AcceptedText)(told)), ({ plan_id }) => plan_id)
      ),
    upload: (content) =>
      Effect.gen(function* () {
        const body = Buffer.concat(Array.from(yield* Stream.runCollect(content))).toString("latin1")
        const posted = yield* ask({ method: "POST", path: "/files", headers: { "content-type": "text/plain" } }, body)
        return (yield* Effect.orDie(Schema.decodeUnknownEffect(Stored)(yield* textOf(posted)))).file_id
      }).pipe(Effect.scoped),
    waiting: (plan) =>
      Effect.gen(function* () {
        const text = yield* textOf(yield* ask({ path: "/waiting?limit=100" }))
        const { waiting } = yield* Effect.orDie(Schema.decodeUnknownEffect(Waiting)(text))
        return waiting.flatMap(({ input, kind, plan_id, task_id, tool }) =>
          plan_id === plan && kind !== undefined && kind !== "approval" ? [{ task_id, type: kind, tool, input }] : []
        )
      }).pipe(Effect.scoped),
    give: (plan, gift, key) => Effect.asVoid(enter(plan, entryOf(gift), key)),
    decide: (plan, decide) =>
      Effect.gen(function* () {
        const text = yield* textOf(yield* ask({ path: "/approvals?limit=100" }))
        const { approvals } = yield* Effect.orDie(Schema.decodeUnknownEffect(Approvals)(text))
        for (const approval of approvals) {
          const path = `/plans/${plan}/approvals/${approval.task_id}`
          if (approval.plan_id === plan) yield* textOf(yield* post(path, { decision: decide(approval) }))
        }
      }).pipe(Effect.scoped)
  }
}

const push = Layer.merge(PushNotifications.layer, Webhooks.layer)

const schedules = ({ plans }: GatewayConfig["Service"]) =>
  Layer.provide(Schedules.layer, Layer.succeed(PlansConfig, plans))

/** Callers speak HTTP to the gateway's own routes, in several protocols. */
export const make =
  ({ keyed, open }: Configs, heard: Heard, { hasKeys, plant = Layer.empty, way }: Planted = {}) =>
  (site: Site) => {
    const rate = Keys.draw(site, hasKeys)
    const config = rate === undefined ? open : { ...keyed, rateLimit: rate }
    return Layer.effect(
      ReplicaClient,
      Effect.map(MemoryServer.Wire, (wire) => {
        const of = (wire: MemoryServer.Wire["Service"]) => clientOf(site, heard, way, wire)
        return rate === undefined ? of(wire) : Keys.client(site, wire, rate, heard.keys, of)
      })
    ).pipe(
      Layer.provide(Layer.provide(HttpGateway.server, plant)),
      Layer.provide([MemoryServer.layer(site), Layer.provide(push, Targets.layer), schedules(config)]),
      Layer.provide([Layer.succeed(GatewayConfig, config), Layer.succeed(SecretKey, config.secretKey)])
    )
  }
