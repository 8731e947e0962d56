import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { type Audience, Door, type Site } from "@bowline/testing/unstable/simulation/Door"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import type { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { Effect, Layer, Schema } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import type { IncomingMessage } from "node:http"
import { PushNotifications } from "../../src/a2a/PushNotifications.ts"
import { GatewayConfig } from "../../src/config/GatewayConfig.ts"
import * as HttpGateway from "../../src/route/HttpGateway.ts"
import * as A2aStart from "./A2aStart.ts"
import { accepted, onBlocks, textOf } from "./Answers.ts"
import * as ChatStart from "./ChatStart.ts"
import * as MemoryServer from "./MemoryServer.ts"

const Head = Schema.Struct({ plan_id: PlanId, session_id: Schema.String, at: Schema.String })
const decodeData = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.StructWithRest(Head, [Schema.Record(Schema.String, Schema.Json)]))
)
const Waiting = Schema.fromJsonString(
  Schema.Struct({ approvals: Schema.Array(Schema.Struct({ plan_id: PlanId, task_id: TaskId })) })
)
const isEvent = Schema.is(Schema.Literals(PlanEvent.members.map(({ fields }) => fields.event.schema.literal)))

interface Item {
  readonly plan: PlanId | undefined
  readonly item: PlanFrame | "ping" | "reconnect"
}

/** A block of the stream, byte for byte as the reference says. */
const toItem = (block: string): Item => {
  if (block === ": ping") return { plan: undefined, item: "ping" }
  if (block === ": reconnect") return { plan: undefined, item: "reconnect" }
  const [, id = "", event = "", data = ""] = /^id: (\d+)\nevent: (\S+)\ndata: (.*)$/.exec(block) ?? []
  if (!isEvent(event)) throw new Error(`No frame: ${block}`)
  const { at, plan_id, session_id: _, ...payload } = decodeData(data)
  return { plan: plan_id, item: { seq: Number(id), at, event, payload: JSON.stringify(payload) } }
}

/** Reads the stream to its end. The first frame names the plan that is not known yet. */
const listen = (answer: IncomingMessage, { begin, take }: Audience, known?: PlanId) =>
  Effect.gen(function* () {
    let plan = known
    if (plan !== undefined) yield* begin(plan)
    yield* onBlocks(answer, (blocks) =>
      Effect.gen(function* () {
        const items = blocks.map(toItem)
        const named = items.find(({ plan }) => plan !== undefined)?.plan
        if (plan === undefined && named !== undefined) yield* begin((plan = named))
        if (items.some((one) => one.plan !== undefined && one.plan !== plan)) {
          return yield* Effect.die("A frame of another plan")
        }
        yield* take(items.map(({ item }) => item))
      })
    )
  })

/** A bug of the routes: another service in the place of the one that they use. */
export type Plant = Layer.Layer<never, never, PlanStreams | TaskStore>

const json = { "content-type": "application/json" }

/** What callers hear who ask in other protocols. */
export interface Heard {
  readonly chats: Array<ChatStart.HeardChat>
  readonly tasks: Array<A2aStart.HeardTask>
}

/** By the number in the name of its plan. */
const protocolOf = (body: Schema.Json) =>
  (["plan", "chat", "a2a"] as const)[Number(/FACT-\D*(\d+)/.exec(JSON.stringify(body))?.[1] ?? 0) % 3]

/** Callers speak HTTP to the gateway's own routes: every third one as a client of OpenAI's API, and of A2A. */
export const make =
  (config: GatewayConfig["Service"], heard: Heard, plant: Plant = Layer.empty) =>
  (site: Site) =>
    Layer.effect(
      Door,
      Effect.gen(function* () {
        const wire = yield* MemoryServer.Wire
        const ask = (...given: Parameters<typeof wire.ask>) => Effect.flatMap(wire.ask(...given), accepted)
        const post = (path: string, body?: Schema.Json, headers = {}) => {
          const sent = body === undefined ? {} : json
          return ask(
            { method: "POST", path, headers: { ...sent, ...headers } },
            body === undefined ? "" : JSON.stringify(body)
          )
        }
        const read: Door["Service"]["read"] = (plan, after, audience) =>
          ask({ path: `/plans/${plan}/events`, headers: { "last-event-id": String(after) } }).pipe(
            Effect.flatMap((answer) => listen(answer, audience, plan)),
            Effect.scoped
          )
        const chat = ChatStart.make(wire, heard.chats, read)
        const a2a = A2aStart.make(wire, heard.tasks, read)
        return {
          start: (question, audience) => {
            const { body, key } = question
            const protocol = protocolOf(body)
            if (protocol === "chat") return chat(question, audience)
            if (protocol === "a2a") return a2a(question, audience)
            return post("/plan", body, key === undefined ? {} : { "idempotency-key": key }).pipe(
              Effect.flatMap((answer) => listen(answer, audience)),
              Effect.scoped
            )
          },
          read,
          cancel: (plan) => Effect.scoped(Effect.asVoid(Effect.flatMap(post(`/plans/${plan}/cancel`), textOf))),
          decide: (plan, decision) =>
            Effect.gen(function* () {
              const text = yield* textOf(yield* ask({ path: "/approvals?limit=100" }))
              const { approvals } = yield* Effect.orDie(Schema.decodeUnknownEffect(Waiting)(text))
              for (const { plan_id, task_id } of approvals) {
                if (plan_id === plan) yield* textOf(yield* post(`/plans/${plan}/approvals/${task_id}`, { decision }))
              }
            }).pipe(Effect.scoped)
        }
      })
    ).pipe(
      Layer.provide(Layer.provide(HttpGateway.server, plant)),
      Layer.provide([MemoryServer.layer(site), PushNotifications.layer, RateLimiter.layerStoreMemory]),
      Layer.provide([Layer.succeed(GatewayConfig, config), Layer.succeed(SecretKey, config.secretKey)])
    )
