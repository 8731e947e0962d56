import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { SentMessage } from "@bowline/a2a/unstable/server/SentMessage"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { AskRequest, GivenPreferences, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { formatPath, fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { Result, Schema, Struct } from "effect"
import * as GivenFiles from "../question/GivenFiles.ts"

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
const decodePlan = Schema.decodeUnknownResult(Schema.toType(AskRequest), { errors: "all" })

/** The name in the parameters of a field of the plan. */
const fieldOf = (path: string): string =>
  path
    .replace(/^(?:question|history)\b.*/, "message.parts")
    .replace(/^session_id\b/, "message.contextId")
    .replace(
      /^(?:bowline|(?=preferences|agents|mcp_servers|tools))/,
      (own) => `message.metadata.bowline${own === "" ? "." : ""}`
    )

export const unsupported = (message: string) => new A2aError({ error: "ContentTypeNotSupported", message })

const answered = ["text/plain", "application/json", "*/*"]

/** The texts of a message. */
export const textsOf = ({ parts }: SentMessage): ReadonlyArray<string> =>
  parts.flatMap((part) => (part._tag === "Text" && part.text.trim() !== "" ? [part.text] : []))

export const hasFiles = ({ parts }: SentMessage): boolean => parts.some(({ _tag }) => _tag === "File")

/** What is wrong with the files of a message: a client of a peer may have sent anything. */
const fileProblems = ({ parts }: SentMessage) =>
  parts.flatMap((part, index) => {
    if (part._tag !== "File") return []
    const { bytes, uri } = part
    const message =
      bytes === undefined ? GivenFiles.urlProblem(uri ?? "") : isData(bytes) ? undefined : "Expected base64"
    return message === undefined ? [] : [{ path: `message.parts[${index}]`, message }]
  })
const isData = Schema.is(GivenFiles.FileData)

const toPlaced = (part: SentMessage["parts"][number], index: number): GivenFiles.Placed => {
  const path = `message.parts[${index}]`
  switch (part._tag) {
    case "Text":
      return { part: { type: "text", text: part.text }, path }
    case "Data":
      return { part: { type: "text", text: `\`\`\`json\n${JSON.stringify(part.data, null, 2)}\n\`\`\`` }, path }
    case "File": {
      const { bytes, mediaType: type, name, uri } = part
      return { part: GivenFiles.fromUrl(bytes ?? uri ?? "", { name, type }), path }
    }
  }
}

/** The files of a message, and where it has them. */
export const filesOf = (message: SentMessage): ReadonlyArray<GivenFiles.Placed> =>
  message.parts.flatMap((part, index) => (part._tag === "File" ? [toPlaced(part, index)] : []))

/** What the message says: its texts, then its data as JSON, with a blank line between them. With files its parts keep their order. */
const questionOf = (message: SentMessage): GivenFiles.Spoken => {
  const placed = message.parts
    .map((part, index) => ({ ...toPlaced(part, index), isData: part._tag === "Data" }))
    .filter(({ part }) => part.type === "file" || part.text.trim() !== "")
  return GivenFiles.spoken(hasFiles(message) ? placed : placed.toSorted((a, b) => Number(a.isData) - Number(b.isData)))
}

/** What the gateway cannot take of a message, or cannot answer it with. */
export const check = (message: SentMessage): Result.Result<void, A2aError> => {
  const problems = fileProblems(message)
  if (problems.length > 0) return Result.fail(invalidParams(problems))
  const { outputModes } = message
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

/** A message as a plan. */
interface MessagePlan {
  readonly request: AskRequest
  /** Whether a repeated message joins it. */
  readonly isIdempotent: boolean
  /** What the client itself says of the plan, where one that runs is to hear the question. */
  readonly sentOf: (request: PlanRequest) => Schema.Json | undefined
  /** What is wrong with the plan, under the names of the parameters. */
  readonly refusalOf: (refusal: InvalidRequest) => A2aError
}

/** The plan that answers the message. Tasks outlive their readers, unless the client says otherwise. */
export const toPlan = (
  message: SentMessage,
  { preset, session, task }: Destination
): Result.Result<MessagePlan, A2aError> =>
  Result.gen(function* () {
    const { bowline = null } = message.metadata
    const own = decodeOwn(bowline === null ? {} : { bowline })
    const given = Result.isSuccess(own) ? own.success.bowline : undefined
    const { agents = [], idempotent = false, mcp_servers = [], preferences = {}, tools = [] } = given ?? {}
    const { asked, placed } = GivenFiles.conversation(questionOf(message), [])
    const renamed = placed((issues) => issues.map((issue) => ({ ...issue, path: fieldOf(issue.path) })))
    const plan = decodePlan({
      ...asked,
      ...(session !== undefined && { session_id: session }),
      ...(preset !== undefined && { preset }),
      agents,
      mcp_servers,
      tools,
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
      return yield* Result.fail(invalidParams(renamed([...fromSchema(own.failure), ...others])))
    }
    const request = yield* Result.mapError(plan, (error) => invalidParams(renamed(fromSchema(error))))
    // A plan that runs is compared with what the client itself says.
    const said = isObject(bowline) ? Struct.omit(bowline, ["idempotent"]) : {}
    return {
      request,
      isIdempotent: idempotent,
      sentOf: ({ preferences, question, session_id }: PlanRequest) =>
        preferences.on_busy === "steer"
          ? { ...said, question, ...(session_id !== undefined && { session_id }) }
          : undefined,
      refusalOf: ({ code, issues }: InvalidRequest) => {
        const violations = renamed(issues.map(({ message, path }) => ({ path: formatPath(path), message })))
        const { message } = invalidParams(violations)
        return code === "unsupported_input" ? unsupported(message) : invalidParams(violations)
      }
    }
  })
