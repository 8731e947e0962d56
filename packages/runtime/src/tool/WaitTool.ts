import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, Option, Schema } from "effect"
import type { Tool, ToolInput, ToolResult } from "./Tool.ts"

export const toolName = "wait"

const maxSeconds = 2_592_000

const Asked = Schema.Struct({
  seconds: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxSeconds }))),
  until: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/u))
  )
})
const decode = Schema.decodeUnknownOption(Asked)

const inputSchema = {
  type: "object",
  properties: {
    seconds: { type: "integer", minimum: 1, maximum: maxSeconds, description: "How long to wait" },
    until: { type: "string", description: "Until when, as RFC 3339: 2026-01-02T03:04:05Z. In place of seconds" },
    why: { type: "string", description: "What for, in a few words" }
  },
  required: ["why"],
  additionalProperties: false
} as const

/** How long the call waits, in milliseconds; below 0 for a time that has passed. Undefined where it does not say that in one way. */
const millisOf = (input: ToolInput, now: number): number | undefined => {
  const { seconds, until } = Option.getOrElse(decode(input), (): typeof Asked.Type => ({}))
  if ((seconds === undefined) === (until === undefined)) return undefined
  const millis = seconds === undefined ? Date.parse(until ?? "") - now : seconds * 1_000
  return millis <= maxSeconds * 1_000 ? millis : undefined
}

const problem = `Expected either seconds, 1..${maxSeconds}, or until, a time of RFC 3339 within 30 days`
const invalid: ToolResult = { state: "invalid", content: problem, error: { code: "invalid", message: problem } }

const ended = (because: "timer" | "text", now: number): ToolResult => ({
  state: "completed",
  content: JSON.stringify({ because, at: fromMillis(now) })
})

/** The tool with which the model waits for a time, or until somebody says something to the plan. */
export const tool: Tool = {
  name: toolName,
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description:
    "Waits, for a time or until a time, and returns earlier if somebody says something. The plan may wait for days. " +
    "The result says why it goes on (timer or text), and when.",
  inputSchema,
  timeoutMs: undefined,
  // To wait once more has no effect.
  isIdempotent: true,
  isPolling: true,
  approval: "never",
  identify: Effect.succeed(null),
  call: ({ ask, input }) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const timeoutMs = millisOf(input, now)
      if (timeoutMs === undefined) return invalid
      // A call that another process has begun waits on until the time that it has stored.
      const settlement = yield* ask({ kind: "timer", round: 1, schema: null, timeoutMs: Math.max(timeoutMs, 0) })
      return ended(settlement.isByText === true ? "text" : "timer", yield* Clock.currentTimeMillis)
    })
}
