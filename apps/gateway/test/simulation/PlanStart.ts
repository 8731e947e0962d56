import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { Audience, ReplicaClient } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Effect, Schema } from "effect"
import type { IncomingMessage } from "node:http"
import { isDeepStrictEqual } from "node:util"
import { accepted, onBlocks, textOf } from "./Answers.ts"
import type { Wire } from "./MemoryServer.ts"

type Start = ReplicaClient["Service"]["start"]
type Rule = NonNullable<Options["rules"]>[string]

const Head = Schema.Struct({ plan_id: PlanId, session_id: Schema.String, at: Schema.String })
const decodeData = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.StructWithRest(Head, [Schema.Record(Schema.String, Schema.Json)]))
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

const post = (wire: Wire["Service"], { body, key }: Parameters<Start>[0], accept: string) => {
  const sent = { "content-type": "application/json", accept, ...(key !== undefined && { "idempotency-key": key }) }
  return Effect.flatMap(wire.ask({ method: "POST", path: "/plan", headers: sent }, JSON.stringify(body)), accepted)
}

/** Asks, and reads the stream. */
export const streamed =
  (wire: Wire["Service"]): Start =>
  (question, audience) =>
    Effect.scoped(Effect.flatMap(post(wire, question, "text/event-stream"), (answer) => listen(answer, audience)))

/** Reads the stream of a plan behind what the caller has seen. */
export const read =
  (wire: Wire["Service"]): ReplicaClient["Service"]["read"] =>
  (plan, after, audience) =>
    wire.ask({ path: `/plans/${plan}/events`, headers: { "last-event-id": String(after) } }).pipe(
      Effect.flatMap(accepted),
      Effect.flatMap((answer) => listen(answer, audience, plan)),
      Effect.scoped
    )

const Result = Schema.StructWithRest(Schema.Struct({ plan_id: PlanId }), [Schema.Record(Schema.String, Schema.Json)])
const decodeResult = Schema.decodeUnknownSync(Schema.fromJsonString(Result))

/** The one JSON object that tells how a plan has ended. */
export type HeardResult = typeof Result.Type

/** Asks, and waits for the answer as one object. Behind it the caller reads the plan. */
export const whole =
  (wire: Wire["Service"], all: Array<HeardResult>, read: ReplicaClient["Service"]["read"]): Start =>
  (question, { begin, take }) =>
    Effect.gen(function* () {
      const heard = decodeResult(yield* textOf(yield* post(wire, question, "application/json")))
      all.push(heard)
      yield* begin(heard.plan_id)
      yield* read(heard.plan_id, 0, { begin: () => Effect.void, take })
    }).pipe(Effect.scoped)

/** The object says what is stored. */
export const rule =
  (all: Array<HeardResult>): Rule =>
  ({ plans }) =>
    // The next run begins with none.
    all.splice(0).flatMap((heard) => {
      const plan = plans.find(({ plan }) => plan.plan_id === heard.plan_id)
      if (plan === undefined) return [`the result of ${heard.plan_id} is of no plan that is stored`]
      const { error, final, plan_id, session_id, state, usage } = plan.plan
      const stored = { plan_id, session_id, state, ...(final && { final }), ...(error && { error }), usage }
      const said: unknown = JSON.parse(JSON.stringify(stored))
      return isDeepStrictEqual(said, heard)
        ? []
        : [`the result of ${plan.name} is ${JSON.stringify(heard)}, the plan ${JSON.stringify(said)}`]
    })
