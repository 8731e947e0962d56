import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { Schema, Struct, Tuple } from "effect"

/** Shows that the gateway is alive, after 10 s without a frame. */
export const ping = ": ping\n\n"

/** The last line of a stream that the gateway ends before the plan is over: the client reconnects with the last id. */
export const reconnect = ": reconnect\n\n"

/** `at` is when the event was stored, in ISO 8601. */
interface Encoded {
  readonly seq: number
  readonly at: string
  readonly event: string
  readonly payload: string
}

/**
 * Makes frames of a plan's events. `id` is the `seq`; `data` is the payload, the text of a JSON object, with `plan_id`,
 * `session_id` and `at` in front of its fields. It joins texts instead of objects, because it runs for every delta.
 */
export const encoder = (ids: { readonly plan_id: PlanId; readonly session_id: SessionId }) => {
  const head = `{"plan_id":${JSON.stringify(ids.plan_id)},"session_id":${JSON.stringify(ids.session_id)},"at":"`
  return (frame: Encoded): string =>
    `id: ${frame.seq}\nevent: ${frame.event}\ndata: ${head}${frame.at}"${frame.payload === "{}" ? "}" : `,${frame.payload.slice(1)}`}\n\n`
}

const head = { plan_id: PlanId, session_id: SessionId, at: Schema.String }

interface ToFrame extends Struct.Lambda {
  <Name extends string, Fields extends Schema.Struct.Fields>(
    event: Schema.Struct<{ readonly event: Schema.tag<Name>; readonly data: Schema.Struct<Fields> }>
  ): Schema.Struct<{
    readonly id: Schema.NumberFromString
    readonly event: Schema.tag<Name>
    readonly data: Schema.fromJsonString<Schema.Struct<typeof head & Fields>>
  }>
  readonly "~lambda.out": this["~lambda.in"] extends Schema.Struct<{
    readonly event: Schema.tag<infer Name>
    readonly data: Schema.Struct<infer Fields>
  }>
    ? Schema.Struct<{
        readonly id: Schema.NumberFromString
        readonly event: Schema.tag<Name>
        readonly data: Schema.fromJsonString<Schema.Struct<typeof head & Fields>>
      }>
    : never
}

const toFrame = Struct.lambda<ToFrame>((event) =>
  Schema.Struct({
    id: Schema.NumberFromString,
    event: event.fields.event,
    data: Schema.fromJsonString(Schema.Struct({ ...head, ...event.fields.data.fields }))
  })
)

/**
 * One frame of a plan's stream: `id` is its `seq`.
 *
 * @example
 * ```ts
 * import { encoder, ping, reconnect, SseFrame } from "@bowline/protocol/stream/SseFrame"
 * import { PlanId } from "@bowline/domain/plan/Plan"
 * import { SessionId } from "@bowline/domain/session/Session"
 * import { Schema } from "effect"
 *
 * const encode = encoder({
 *   plan_id: PlanId.make(`plan_${crypto.randomUUID()}`),
 *   session_id: SessionId.make(`session_${crypto.randomUUID()}`)
 * })
 * const at = new Date(0).toISOString()
 * const stream = [encode({ seq: 1, at, event: "done", payload: "{}" }), ping, reconnect]
 *
 * // The fields of one frame, as a parser of event streams gives them.
 * export const decodeFrame = Schema.decodeUnknownSync(SseFrame)
 * console.log(stream.join(""))
 * ```
 */
export const SseFrame = PlanEvent.mapMembers(Tuple.map(toFrame))
export type SseFrame = typeof SseFrame.Type
