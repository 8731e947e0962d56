import { Effect, Schema } from "effect"
import { Agent, TimeoutMs } from "../peer/Agent.ts"
import { ExternalSessionId } from "../session/SessionId.ts"

const intBetween = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

export const OnDisconnect = Schema.Literals(["cancel", "continue"])
export const OnBusy = Schema.Literals(["queue", "reject", "interrupt"])
export type OnBusy = typeof OnBusy.Type

/** How a plan is to be run. Times in milliseconds. */
export const Preferences = Schema.Struct({
  timeout_ms: TimeoutMs.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1_800_000))),
  tool_timeout_ms: TimeoutMs.pipe(Schema.withDecodingDefaultKey(Effect.succeed(600_000))),
  max_steps: intBetween(1, 100).pipe(Schema.withDecodingDefaultKey(Effect.succeed(25))),
  max_tool_calls: intBetween(0, 1_000).pipe(Schema.withDecodingDefaultKey(Effect.succeed(200))),
  model: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 256))),
  on_disconnect: OnDisconnect.pipe(Schema.withDecodingDefaultKey(Effect.succeed("cancel" as const))),
  on_busy: OnBusy.pipe(Schema.withDecodingDefaultKey(Effect.succeed("queue" as const)))
})
export type Preferences = typeof Preferences.Type

export const Metadata = Schema.Record(Schema.String, Schema.String.check(Schema.isMaxLength(512))).check(
  Schema.makeFilter((entries) => Object.keys(entries).length <= 16 || "Expected at most 16 entries")
)

/** The body of `POST /plan`. */
export const PlanRequest = Schema.Struct({
  question: Schema.String.check(
    Schema.makeFilter((text) => text.trim() !== "" || "Expected a question that is not blank"),
    Schema.isMaxLength(200_000)
  ),
  session_id: Schema.optionalKey(ExternalSessionId),
  agents: Schema.Array(Agent).pipe(
    Schema.check(Schema.isMaxLength(64)),
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  metadata: Metadata.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  preferences: Preferences.pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
})
export type PlanRequest = typeof PlanRequest.Type
