import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { SentMessage } from "@bowline/a2a/unstable/server/SentMessage"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { GivenPreferences, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { formatPath, fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Result, Schema, Struct } from "effect"

/** What a client may say in Bowline's own words: as in `POST /plan`, and as strict. */
const { agents, mcp_servers, tools } = PlanRequest.fields
const Own = Schema.Struct({
  bowline: Schema.optionalKey(
    Schema.Struct({
      agents,
      mcp_servers,
      tools,
      preferences: Schema.optionalKey(GivenPreferences),
      idempotent: Schema.optionalKey(Schema.Boolean)
    })
  )
})
const decodeOwn = Schema.decodeUnknownResult(Own, { errors: "all", onExcessProperty: "error" })
const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))
const decodePlan = Schema.decodeUnknownResult(Schema.toType(PlanRequest), { errors: "all" })

/** The name in the parameters of a field of the plan. */
const fieldOf = (path: string): string =>
  path
    .replace(/^(?:question|history)\b.*/, "message.parts")
    .replace(/^session_id\b/, "message.contextId")
    .replace(
      /^(?:bowline|(?=preferences|agents|mcp_servers|tools))/,
      (own) => `message.metadata.bowline${own === "" ? "." : ""}`
    )

const renamed = (issues: ReadonlyArray<Issue>): A2aError =>
  invalidParams(issues.map(({ message, path }) => ({ path: fieldOf(path), message })))

/** What is wrong with the plan, under the names of the parameters. */
export const fromInvalid = ({ issues }: InvalidRequest): A2aError =>
  renamed(issues.map(({ message, path }) => ({ path: formatPath(path), message })))

const unsupported = (message: string) => new A2aError({ error: "ContentTypeNotSupported", message })

const answered = ["text/plain", "application/json", "*/*"]

/** The text of a message: its texts, then its data as JSON, with a blank line between them. */
export const textsOf = ({ parts }: SentMessage): ReadonlyArray<string> =>
  parts.flatMap((part) => (part._tag === "Text" && part.text.trim() !== "" ? [part.text] : []))

const questionOf = (message: SentMessage): string =>
  [
    ...textsOf(message),
    ...message.parts.flatMap((part) =>
      part._tag === "Data" ? [`\`\`\`json\n${JSON.stringify(part.data, null, 2)}\n\`\`\``] : []
    )
  ].join("\n\n")

/** What the gateway cannot take of a message, or cannot answer it with. */
export const check = ({ outputModes, parts }: SentMessage): Result.Result<void, A2aError> => {
  if (parts.some(({ _tag }) => _tag === "File")) {
    return Result.fail(unsupported("Expected parts of text or data: the planner takes no files"))
  }
  return outputModes.length === 0 || outputModes.some((mode) => answered.includes(mode))
    ? Result.void
    : Result.fail(unsupported(`Expected acceptedOutputModes with one of ${answered.join(", ")}`))
}

/** Where the message goes: the session that it names or whose task it continues. */
interface Destination {
  readonly preset: string | undefined
  readonly session: string | undefined
  readonly task: PlanId | undefined
}

/** The plan that answers the message, and whether a repeated message joins it. Tasks outlive their readers, unless the client says otherwise. */
export const toPlan = (
  message: SentMessage,
  { preset, session, task }: Destination
): Result.Result<
  { readonly request: PlanRequest; readonly isIdempotent: boolean; readonly sent: Schema.Json | undefined },
  A2aError
> =>
  Result.gen(function* () {
    const { bowline = null } = message.metadata
    const own = decodeOwn(bowline === null ? {} : { bowline })
    const given = Result.isSuccess(own) ? own.success.bowline : undefined
    const { agents = [], idempotent = false, mcp_servers = [], preferences = {}, tools = [] } = given ?? {}
    const plan = decodePlan({
      question: questionOf(message),
      ...(session !== undefined && { session_id: session }),
      ...(preset !== undefined && { preset }),
      agents,
      mcp_servers,
      tools,
      history: [],
      metadata: {},
      task_message: {
        message_id: message.messageId,
        ...(task !== undefined && { task_id: task }),
        metadata: Struct.omit(message.metadata, ["bowline"])
      },
      preferences: { on_disconnect: "continue", ...preferences }
    })
    if (Result.isFailure(own)) {
      // The client is told at once of whatever else is wrong.
      const others = Result.isFailure(plan) ? fromSchema(plan.failure) : []
      return yield* Result.fail(renamed([...fromSchema(own.failure), ...others]))
    }
    const request = yield* Result.mapError(plan, (error) => renamed(fromSchema(error)))
    const { question, session_id } = request
    // A plan that runs is compared with what the client itself says.
    const said = isObject(bowline) ? Struct.omit(bowline, ["idempotent"]) : {}
    const isSteering = request.preferences.on_busy === "steer"
    const sent = isSteering ? { ...said, question, ...(session_id !== undefined && { session_id }) } : undefined
    return { request, isIdempotent: idempotent, sent }
  })
