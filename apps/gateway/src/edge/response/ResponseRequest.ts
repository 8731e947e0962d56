import { AskRequest, Metadata, type PlanRequest, type ResponseFormat } from "@bowline/domain/plan/PlanRequest"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Option, Result, Schema } from "effect"
import { anyObject, decodeOwn, metadataOf } from "../openai/ChatRequest.ts"
import type { Brought } from "../leg/ClientResults.ts"
import * as ChatSampling from "../openai/ChatSampling.ts"
import * as ChatTools from "../openai/ChatTools.ts"
import { refusals, refusedInResponses } from "../openai/RefusedFields.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import * as ResponseInput from "./ResponseInput.ts"
import * as ResponseTools from "./ResponseTools.ts"

const { given } = ChatSampling

const Json = Schema.Record(Schema.String, Schema.Json)

const Format = Schema.Union([
  Schema.Struct({ type: Schema.Literals(["text", "json_object"]) }),
  Schema.Struct({ type: Schema.tag("json_schema"), schema: Json })
])

const Body = Schema.Struct({
  model: Schema.String,
  input: ResponseInput.Input,
  stream: given(Schema.Boolean),
  background: given(Schema.Boolean),
  store: given(Schema.Boolean),
  instructions: given(Schema.String),
  metadata: given(Metadata),
  previous_response_id: given(Schema.String),
  conversation: given(Schema.Union([Schema.String, Schema.Struct({ id: Schema.String })])).annotate({
    message: "Expected the name of a session, or {id}"
  }),
  max_tool_calls: given(Schema.Int),
  text: given(Schema.Struct({ format: given(Json), verbosity: given(Schema.String) })),
  tools: given(Schema.Array(Json)),
  tool_choice: ChatTools.fields.tool_choice,
  parallel_tool_calls: ChatTools.fields.parallel_tool_calls,
  service_tier: given(Schema.String),
  prompt_cache_key: ChatSampling.fields.prompt_cache_key,
  user: given(Schema.String.check(Schema.isMaxLength(512))),
  safety_identifier: given(Schema.String.check(Schema.isMaxLength(512))),
  temperature: ChatSampling.fields.temperature,
  top_p: ChatSampling.fields.top_p,
  max_output_tokens: ChatSampling.fields.max_tokens,
  reasoning: given(Schema.Struct({ effort: ChatSampling.fields.reasoning_effort, summary: given(Schema.String) }))
}).check(
  Schema.makeFilter(({ conversation = null, previous_response_id = null }) =>
    conversation === null || previous_response_id === null
      ? undefined
      : { path: ["previous_response_id"], issue: "Expected no conversation beside it: each of them names the session" }
  )
)

const decodeBody = Schema.decodeUnknownResult(Body, { errors: "all", onExcessProperty: "ignore" })
const decodeFormat = Schema.decodeUnknownResult(Format, { errors: "all" })
const decodePlan = Schema.decodeUnknownResult(Schema.toType(AskRequest), { errors: "all" })

/** They ask for nothing that a plan could do otherwise. */
const accepted = ["bowline", "stream_options", "truncation"]
const known = new Set([...Object.keys(Body.fields), ...Object.keys(refusedInResponses), ...accepted])

/** A request of OpenAI's Responses as a plan. */
export interface ResponseRequest {
  /** As the caller wrote it. */
  readonly model: string
  readonly isStreamed: boolean
  /** Where the session is that of an earlier response. */
  readonly previous: string | undefined
  /** What the caller has decided about calls that wait. */
  readonly decided: ReadonlyArray<ResponseInput.Decided>
  /** What it brings to a plan that waits for its client. */
  readonly brought: Brought | undefined
  /** Without its preset. Undefined if the caller only decides, and asks nothing. */
  readonly request: AskRequest | undefined
  /** Without what only the start of the plan tells. */
  readonly echo: Omit<ResponseEcho, "created_at" | "input" | "labels">
  /** The items as the response of this plan repeats them. */
  readonly input: (request: PlanRequest) => ResponseEcho["input"]
  /** The fields that change nothing. */
  readonly ignored: ReadonlyArray<string>
  /** What is wrong with the plan, under the names of the body. */
  readonly renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
}

/** The name in this body of a field of the plan, whose first MCP servers come from `tools`, and so do the client's tools. */
const fieldOf = (path: string, servers: number, named: ReadonlyArray<typeof Json.Type>): string => {
  const [, nth, field = ""] = /^tools\[(\d+)\]\.?(.*)$/.exec(path) ?? []
  if (nth !== undefined) {
    return `tools[${ResponseTools.placeOf(named, "function", Number(nth))}].${field.replace(/^input_schema\b/, "parameters")}`
  }
  const [, index, rest = ""] = /^mcp_servers\[(\d+)\]\.?(.*)$/.exec(path) ?? []
  if (index !== undefined) {
    if (Number(index) >= servers)
      return `bowline.mcp_servers[${Number(index) - servers}]${rest === "" ? "" : `.${rest}`}`
    return `tools[${ResponseTools.placeOf(named, "mcp", Number(index))}]${rest === "" ? "" : `.${ResponseTools.fieldOf(rest)}`}`
  }
  return path
    .replace(/^(?:question|history|prior_summary)\b.*/, "input")
    .replace(/^session_id\b/, "conversation")
    .replace(/^follows\b/, "previous_response_id")
    .replace(/^preferences\.response_format\b/, "text.format")
    .replace(/^preferences\.max_tool_calls\b/, "max_tool_calls")
    .replace(/^mcp_servers\b/, "tools")
    .replace(/^(?:preferences|agents)\b/, "bowline.$&")
    .replace(/^sampling\.reasoning_effort\b/, "reasoning.effort")
    .replace(/^sampling\./, "")
}

const formatOf = (format: typeof Format.Type | undefined): { readonly response_format?: ResponseFormat } => {
  if (format === undefined) return {}
  if (format.type === "text") return { response_format: "text" }
  return {
    response_format: { type: "json_schema", schema: format.type === "json_schema" ? format.schema : anyObject }
  }
}

const readFormat = (text: typeof Body.Type.text) => {
  const format = text?.format ?? undefined
  if (format === undefined) return Result.succeed(undefined)
  return Result.mapError(decodeFormat(format), (error) =>
    fromSchema(error).map(({ message, path }) => ({
      path: path === "" ? "text.format" : `text.format.${path}`,
      message
    }))
  )
}

const samplingOf = (body: typeof Body.Type) => {
  const { max_output_tokens = null, prompt_cache_key = null, reasoning, temperature = null, top_p = null } = body
  return ChatSampling.read({
    temperature,
    top_p,
    prompt_cache_key,
    max_tokens: max_output_tokens,
    reasoning_effort: reasoning?.effort ?? null
  })
}

const echoOf = (body: typeof Body.Type): ResponseRequest["echo"] => {
  const {
    background,
    conversation = null,
    parallel_tool_calls,
    prompt_cache_key,
    store,
    text,
    tool_choice,
    tools
  } = body
  return {
    type: "response",
    model: body.model,
    background: background === true,
    store: store !== false,
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? {},
    previous_response_id: body.previous_response_id ?? null,
    conversation: typeof conversation === "string" ? { id: conversation } : conversation,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    reasoning: { effort: null, summary: null, ...body.reasoning },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: body.service_tier ?? null,
    temperature: body.temperature ?? null,
    text: { ...text, format: text?.format ?? { type: "text" } },
    tools: (tools ?? []).map(ResponseTools.shown),
    ...(parallel_tool_calls === false && { parallel_tool_calls }),
    ...(tool_choice === "none" && { tool_choice }),
    ...(typeof prompt_cache_key === "string" && { prompt_cache_key }),
    top_p: body.top_p ?? null,
    user: body.user ?? null
  }
}

/** Reads a body. Fails with everything that is wrong with it, field by field. */
export const decode = (
  sent: Readonly<Record<string, unknown>>
): Result.Result<ResponseRequest, ReadonlyArray<Issue>> => {
  const decoded = decodeBody(sent)
  const decodedOwn = decodeOwn({ bowline: sent["bowline"] ?? null })
  const refused = refusals(refusedInResponses, sent)
  if (Result.isFailure(decoded) || Result.isFailure(decodedOwn) || refused.length > 0) {
    const errors = [Result.getFailure(decoded), Result.getFailure(decodedOwn)].flatMap(Option.toArray)
    return Result.fail([...refused, ...errors.flatMap(fromSchema)])
  }
  const body = decoded.success
  const parts = Result.all({
    asked: ResponseInput.read(body.input),
    named: ResponseTools.read(body.tools ?? []),
    format: readFormat(body.text)
  })
  return Result.flatMap(parts, ({ asked, format, named: { servers, tools } }) => {
    const { agents = [], mcp_servers = [], preferences = {} } = decodedOwn.success.bowline ?? {}
    const { ignored, metadata } = metadataOf(body)
    const instructions = [body.instructions?.trim() ?? "", ...asked.instructions].filter((text) => text !== "")
    const { background, conversation = null, max_tool_calls, previous_response_id } = body
    const sampling = samplingOf(body)
    const legs = ChatTools.legs(tools, body)
    const session = typeof conversation === "string" ? conversation : conversation?.id
    const renamed = asked.placed((issues) =>
      issues.map(({ message, path }) => ({ path: fieldOf(path, servers.length, body.tools ?? []), message }))
    )
    const plan =
      asked.question === undefined
        ? Result.succeed(undefined)
        : decodePlan({
            question: asked.question,
            ...(session !== undefined && { session_id: session }),
            ...(instructions.length > 0 && { instructions: instructions.join("\n\n") }),
            ...(sampling !== undefined && { sampling }),
            agents,
            mcp_servers: [...servers, ...mcp_servers],
            ...legs,
            history: asked.history,
            ...(asked.summary !== undefined && { prior_summary: asked.summary }),
            metadata,
            preferences: {
              ...preferences,
              ...formatOf(format),
              ...(typeof max_tool_calls === "number" && { max_tool_calls }),
              ...(background === true && { on_disconnect: "continue" })
            }
          })
    return Result.mapBoth(plan, {
      onFailure: (error) => renamed(fromSchema(error)),
      onSuccess: (request): ResponseRequest => ({
        model: body.model,
        isStreamed: body.stream === true,
        previous: previous_response_id ?? undefined,
        decided: asked.decided,
        brought: asked.brought && { ...asked.brought, tools: ChatTools.toolsNow(body, legs) },
        request,
        echo: echoOf(body),
        // Nobody can ask for the input of what is not stored.
        input: body.store === false ? () => [] : asked.items,
        ignored: [...Object.keys(sent).filter((name) => !known.has(name)), ...ignored, ...asked.ignored],
        renamed
      })
    })
  })
}
