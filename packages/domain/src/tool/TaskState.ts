import { Schema } from "effect"

/**
 * The id of one call of a tool, a UUID. The call carries it as its idempotency key. When a history is sent to a provider, it replaces
 * the provider's own id of the call.
 */
export const TaskId = Schema.String.check(Schema.isPattern(/^[0-9a-f-]{36}$/u)).pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

/**
 * How a task can end.
 *
 * @example
 * ```ts
 * import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
 *
 * export const waitsForCaller = (state: TaskState): boolean => handedBack.has(state)
 * ```
 */
export const TaskState = Schema.Literals([
  "completed",
  "failed",
  "canceled",
  "rejected",
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required",
  "timed-out",
  "interrupted",
  "invalid"
])
export type TaskState = typeof TaskState.Type

/** The ends of a task in which the peer waits for an answer: the next call of the same skill continues the remote task. */
export const handedBack: ReadonlySet<TaskState> = new Set<TaskState>([
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required"
])

/** `/order_id`: a place in the arguments, as a JSON Pointer (RFC 6901). */
const Place = Schema.String.check(
  Schema.isMaxLength(512),
  Schema.isPattern(/^(?:\/(?:[^~/]|~[01])*)+$/u, { message: "Expected a JSON Pointer such as /order_id" })
)

const hours = (text: string): number => Number.parseInt(text, 10) * (text.endsWith("d") ? 24 : 1)

/**
 * What a call of a tool does to the world: two calls with the same `key` would do it twice. The key is all `arguments`, or these places of them.
 * `session` and `caller` say among whose calls it counts; `keep` how long, from one hour to 400 days, as `12h` or `30d`.
 */
export const ToolEffect = Schema.Struct({
  key: Schema.Union([Schema.Literal("arguments"), Schema.Array(Place).check(Schema.isBetweenLength(1, 16))]),
  scope: Schema.Literals(["session", "caller"]),
  keep: Schema.optionalKey(
    Schema.String.check(
      Schema.makeFilter(
        (text) =>
          (/^[1-9][0-9]{0,4}[hd]$/u.test(text) && hours(text) <= 9_600) || "Expected hours or days from 1h to 400d"
      )
    )
  )
})
export type ToolEffect = typeof ToolEffect.Type

/** Where a tool comes from. */
export const ToolKind = Schema.Literals(["peer", "mcp", "local", "recipe", "client"])
export type ToolKind = typeof ToolKind.Type
