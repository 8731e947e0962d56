import {
  AskRequest,
  GivenPreferences,
  Metadata,
  PlanRequest,
  type ResponseFormat
} from "@bowline/domain/plan/PlanRequest"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { OnRetract } from "@bowline/protocol/unstable/openai/OpenAiApi"
import { Option, Result, Schema } from "effect"
import * as ChatMessages from "./ChatMessages.ts"
import * as ChatSampling from "./ChatSampling.ts"
import * as ChatTools from "./ChatTools.ts"
import type { Brought } from "../leg/ClientResults.ts"
import { refusals, refusedFields } from "./RefusedFields.ts"

const { given } = ChatSampling
const { Message, noQuestion } = ChatMessages

const Format = Schema.Union([
  Schema.Struct({ type: Schema.Literals(["text", "json_object"]) }),
  Schema.Struct({
    type: Schema.tag("json_schema"),
    json_schema: Schema.Struct({ schema: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)) })
  })
])

const Body = Schema.Struct({
  model: Schema.String,
  messages: Schema.Array(Message).check(
    Schema.isMaxLength(1_000),
    Schema.makeFilter(
      (messages) => ["user", "tool"].includes(ChatMessages.spokenOf(messages).at(-1)?.role ?? "") || noQuestion
    )
  ),
  stream: given(Schema.Boolean),
  stream_options: given(Schema.Struct({ include_usage: given(Schema.Boolean) })),
  response_format: given(Format),
  ...ChatTools.fields,
  metadata: given(Metadata),
  user: given(Schema.String.check(Schema.isMaxLength(512))),
  safety_identifier: given(Schema.String.check(Schema.isMaxLength(512))),
  store: given(Schema.Boolean),
  ...ChatSampling.fields
})

/** What a caller may say in Bowline's own words: as in `POST /plan`, and as strict. */
const { agents, mcp_servers } = PlanRequest.fields
const own = { agents, mcp_servers, preferences: Schema.optionalKey(GivenPreferences) }
const Own = Schema.Struct({ bowline: given(Schema.Struct(own)) })
const ChatOwn = Schema.Struct({
  bowline: given(Schema.Struct({ ...own, on_retract: Schema.optionalKey(OnRetract) }))
})

const decodeBody = Schema.decodeUnknownResult(Body, { errors: "all", onExcessProperty: "ignore" })
/** Decodes `{bowline}`. */
export const decodeOwn = Schema.decodeUnknownResult(Own, { errors: "all", onExcessProperty: "error" })
const decodeChatOwn = Schema.decodeUnknownResult(ChatOwn, { errors: "all", onExcessProperty: "error" })

/** They ask for nothing that a plan could do otherwise. */
const accepted = ["service_tier", "bowline"]
const known = new Set([...Object.keys(Body.fields), ...Object.keys(refusedFields), ...accepted])

/** A request of OpenAI's Chat Completions as a plan. */
export interface ChatRequest {
  /** As the caller wrote it. */
  readonly model: string
  readonly isStreamed: boolean
  readonly includesUsage: boolean
  /** Whether the completion can be read later. */
  readonly isStored: boolean
  /** What the stream does when the plan takes back text; undefined if it is as configured. */
  readonly onRetract: typeof OnRetract.Type | undefined
  /** What the last messages bring to a plan that waits for its client. */
  readonly brought: Brought | undefined
  /** Without its preset and its session, which the body does not name. */
  readonly request: AskRequest
  /** The fields that change nothing. */
  readonly ignored: ReadonlyArray<string>
  /** What is wrong with the plan, under the names of the body. */
  readonly renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
}

/** What an answer is held to that has to be some object. */
export const anyObject = { type: "object" }

const formatOf = (format: typeof Body.Type.response_format): { readonly response_format?: ResponseFormat } => {
  if (format === undefined || format === null) return {}
  if (format.type === "text") return { response_format: "text" }
  const { schema = anyObject } = format.type === "json_schema" ? format.json_schema : {}
  return { response_format: { type: "json_schema", schema } }
}

/** The user's names are entries of the metadata, unless it has those already, or is full. */
export const metadataOf = ({
  metadata,
  safety_identifier,
  user
}: Pick<typeof Body.Type, "metadata" | "safety_identifier" | "user">) => {
  const entries: Record<string, string> = { ...metadata }
  const ignored: Array<string> = []
  for (const [name, value] of Object.entries({ user, safety_identifier })) {
    if (value === undefined || value === null) continue
    if (Object.hasOwn(entries, name) || Object.keys(entries).length >= 16) ignored.push(name)
    else entries[name] = value
  }
  return { metadata: entries, ignored }
}

const decodePlan = Schema.decodeUnknownResult(Schema.toType(AskRequest), { errors: "all" })

/** The name in this body of a field of the plan. */
const fieldOf = (path: string): string =>
  path
    .replace(/^(?:question|history|instructions)\b.*/, "messages")
    .replace(/^preferences\.response_format\b/, "response_format")
    .replace(/^(?:preferences|agents|mcp_servers)\b/, "bowline.$&")
    .replace(/^sampling\./, "")
    .replace(/^(tools\[\d+\])\.(name|description)\b/, "$1.function.$2")
    .replace(/^(tools\[\d+\])\.input_schema\b/, "$1.function.parameters")

const byFields = (issues: ReadonlyArray<Issue>): ReadonlyArray<Issue> =>
  issues.map(({ message, path }) => ({ path: fieldOf(path), message }))

/** Reads a body. Fails with everything that is wrong with it, field by field. */
export const decode = (
  sent: Readonly<Record<string, unknown>>,
  roots: ReadonlyArray<string> = []
): Result.Result<ChatRequest, ReadonlyArray<Issue>> => {
  const body = decodeBody(sent)
  const own = decodeChatOwn({ bowline: sent["bowline"] ?? null })
  const refused = refusals(refusedFields, sent)
  if (Result.isFailure(body) || Result.isFailure(own) || refused.length > 0) {
    const errors = [Result.getFailure(body), Result.getFailure(own)].flatMap(Option.toArray)
    return Result.fail([...refused, ...errors.flatMap(fromSchema)])
  }
  const { model, response_format, store, stream, stream_options } = body.success
  const { agents = [], mcp_servers = [], on_retract, preferences = {} } = own.success.bowline ?? {}
  const instructions = ChatMessages.instructionsOf(body.success.messages)
  const messages = ChatMessages.spokenOf(body.success.messages)
  const { ignored, metadata } = metadataOf(body.success)
  const sampling = ChatSampling.read(body.success)
  const { asked, placed } = ChatMessages.asked(messages, roots)
  const renamed = placed(byFields)
  const plan = decodePlan({
    ...asked,
    ...(instructions !== "" && { instructions }),
    ...(sampling !== undefined && { sampling }),
    agents,
    mcp_servers,
    ...ChatTools.planned(body.success),
    metadata,
    preferences: { ...preferences, ...formatOf(response_format) }
  })
  return Result.mapBoth(plan, {
    onFailure: (error) => renamed(fromSchema(error)),
    onSuccess: (request): ChatRequest => ({
      model,
      isStreamed: stream === true,
      includesUsage: stream_options?.include_usage === true,
      isStored: store === true,
      onRetract: on_retract,
      brought: ChatMessages.broughtBy(messages, ChatTools.toolsNow(body.success, request)),
      request,
      ignored: [...Object.keys(sent).filter((name) => !known.has(name)), ...ignored],
      renamed
    })
  })
}
