import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import { QuestionPart, textOf } from "@bowline/domain/unstable/file/QuestionPart"
import { Effect, Option, Schema } from "effect"
import type { Settlement } from "../store/InboxStore.ts"
import type { Tool, ToolResult } from "./Tool.ts"

/** What becomes of a call that somebody should have settled, and nobody has in time. */
export const expired: ToolResult = {
  state: "timed-out",
  content: "Nobody answered in time.",
  error: { code: "wait_expired", message: "Nobody answered in time" }
}

/** The same where nothing of the call was sent. */
export const expiredUnsent: ToolResult = { ...expired, isUnsent: true }

const maxMessage = 500

const resultOf = ({ given }: Settlement): ToolResult => {
  if (given?.entry.type !== "result") return expired
  const { content, is_error } = given.entry
  const parts = Array.isArray(content) ? Option.getOrElse(decodeParts(content), () => []) : []
  const files = parts.filter((part) => part.type === "file")
  const text = files.length > 0 ? textOf(parts) : typeof content === "string" ? content : JSON.stringify(content)
  const result = { content: text, ...(files.length > 0 && { files }) }
  return is_error === true
    ? { ...result, state: "failed", error: { code: "tool_failed", message: text.slice(0, maxMessage) } }
    : { ...result, state: "completed" }
}

/** A result with files is stored as its parts. */
const decodeParts = Schema.decodeUnknownOption(Schema.Array(QuestionPart))

/** A tool that the client runs: its call waits for the result in the plan's inbox. */
export const fromRequest = ({
  approval,
  description,
  effect,
  input_schema,
  name,
  output_schema,
  wait_timeout_ms
}: ClientTool): Tool => ({
  name,
  kind: "client",
  agent: null,
  endpoint: null,
  skill: null,
  description: description ?? name,
  inputSchema: input_schema,
  timeoutMs: undefined,
  // To wait once more for a result has no effect.
  isIdempotent: true,
  isPolling: false,
  effect,
  approval,
  identify: Effect.succeed(null),
  call: ({ ask }) =>
    Effect.map(ask({ kind: "result", round: 1, schema: output_schema ?? null, timeoutMs: wait_timeout_ms }), resultOf)
})
