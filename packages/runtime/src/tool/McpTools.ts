import type { ServerTerms } from "@bowline/domain/unstable/mcp/McpServer"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { Effect, Schema } from "effect"
import { createHash } from "node:crypto"
import type { McpCall, McpConnection, McpQuestion, McpResult, McpTool } from "../remote/McpClient.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import type { StoredTask } from "../store/PlanStore.ts"
import { withAccount } from "./Accounts.ts"
import { expired, expiredUnsent } from "./ClientTools.ts"
import { asking } from "./Questions.ts"
import type { JsonSchema, TaskCall, Tool, ToolResult, ToolTrust } from "./Tool.ts"
import { isUnsent, takenFiles } from "./PeerTools.ts"
import * as ToolName from "./ToolName.ts"
import * as ToolSchema from "./ToolSchema.ts"

/** `sha256:` and the digest of the canonical JSON of what a server says of a tool: its name, its description and its schemas. */
export const hashOf = ({ description, inputSchema, name, outputSchema }: McpTool): string => {
  const said = canonicalJson({ name, description, input_schema: inputSchema, output_schema: outputSchema })
  return `sha256:${createHash("sha256").update(said).digest("hex")}`
}

/** The tool's name among those of the plan. */
export const nameOf = (server: ServerTerms, { name }: McpTool): string => ToolName.forSkill(server.name, name)

/** Says what is wrong with the structured content of a result, if anything. */
export type CheckOutput = (tool: string, schema: JsonSchema, output: Schema.Json) => Effect.Effect<string | undefined>

const fromError = ({ isTaken = false, reason }: PeerError): ToolResult => ({
  state: "failed",
  content: reason.message,
  ...(!isTaken && isUnsent(reason) && { isUnsent: true }),
  error: { code: reason._tag, message: reason.message }
})

const contentOf = ({ structured, text }: McpResult): string =>
  text === "" && structured !== undefined ? JSON.stringify(structured) : text

const excerpt = (text: string): string => text.slice(0, 500).toWellFormed()

const fromResult = (result: McpResult, { fetch_files }: ServerTerms): ToolResult => {
  const content = contentOf(result)
  const files = takenFiles(result.files, fetch_files)
  switch (result.state) {
    case "completed":
      return { state: "completed", content, ...files }
    case "failed":
      return { state: "failed", content, ...files, error: { code: "tool_failed", message: excerpt(content) } }
    case "canceled":
      return { state: "canceled", content, error: { code: "task_failed", message: excerpt(content) } }
    case "timed-out":
      return expired
    case "input-required": {
      const message = "The server asks the caller for something, which this gateway does not pass on"
      return { state: "input-required", content, error: { code: "input_required", message } }
    }
  }
}

const mismatched = (result: McpResult, problem: string): ToolResult => {
  const message = `The structured content cannot be used. ${excerpt(problem)}`
  const content = result.text === "" ? JSON.stringify(result.structured) : result.text
  return { state: "invalid", content, note: message, error: { code: "invalid", message } }
}

const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))

/** Whether a person can be asked this: to visit a page, or to fill in a form whose schema can be checked. */
const canBeAsked = ({ schema, url }: McpQuestion): boolean =>
  schema === null
    ? url !== undefined && /^https?:$/.test(URL.parse(url)?.protocol ?? "")
    : ToolSchema.problem(schema) === undefined

/** Asks the user what the server asks. The schema of a form is shown, and the answer has to match it. */
const answerFor = (call: Pick<TaskCall, "ask" | "asked">): NonNullable<McpCall["answer"]> => {
  const ask = asking(call)
  return (question) => {
    if (!canBeAsked(question)) return Effect.undefined
    const { mark, message, schema, url } = question
    const shown = { ...(schema !== null && { data: schema }), ...(url !== undefined && { url }) }
    const kept = mark === undefined ? { isHeld: true } : { mark }
    return Effect.map(ask({ schema, message, ...shown, ...kept }), (given) => {
      if (given === undefined || given === "expired") return given
      const { action = "accept", data } = given.entry
      return { action, ...(action === "accept" && isObject(data) && { content: data }) }
    })
  }
}

/** What is wrong with a result that has to match the output schema: no structured content at all is wrong, too. */
const outputProblem = (tool: McpTool, result: McpResult, check: CheckOutput): Effect.Effect<string | undefined> => {
  if (tool.outputSchema === null || result.state !== "completed") return Effect.undefined
  if (result.structured === undefined) return Effect.succeed("There is none, though the tool has a schema for it")
  return check(tool.name, tool.outputSchema, result.structured)
}

/** A tool of a connected MCP server as a tool of the planner; `urls` is what its calls connect to where a request says so. What the server says of itself can only make the gateway more careful. */
export const fromTool = (
  server: ServerTerms,
  urls: ReadonlyArray<string>,
  connection: McpConnection,
  tool: McpTool,
  trust: ToolTrust,
  { answers, check }: { readonly answers: boolean; readonly check: CheckOutput }
): Tool => ({
  name: nameOf(server, tool),
  kind: "mcp",
  agent: server.name,
  endpoint: null,
  urls,
  skill: tool.name,
  description: tool.description ?? `Call ${tool.name} of the MCP server ${server.name}`,
  inputSchema: tool.inputSchema,
  timeoutMs: server.tool_timeout_ms,
  isIdempotent: false,
  isPolling: false,
  effect: Object.entries(server.effects ?? {}).find(([name]) => name === tool.name)?.[1],
  approval: server.approval,
  trust,
  ...(tool.isDestructive && { approvalReason: "sensitive" }),
  identify: Effect.succeed(null),
  call: ({ ask, asked, awaitAccount, continues = asked?.mark ?? undefined, onEvent, ...call }) => {
    const answer = answerFor({ ask, asked })
    let begun: string | undefined
    const attempt = (resumes: string | undefined) => {
      begun = resumes
      return connection.call({ tool, ...call, resumes, ...(answers && { answer }) }, (message) =>
        onEvent({ _tag: "Progress", state: "working", message })
      )
    }
    return withAccount({ awaitAccount, continues }, attempt).pipe(
      Effect.flatMap((result) => {
        if (result === "expired") return Effect.succeed(begun === undefined ? expiredUnsent : expired)
        return Effect.map(outputProblem(tool, result, check), (problem) =>
          problem === undefined ? fromResult(result, server) : mismatched(result, problem)
        )
      }),
      Effect.catchTag("PeerError", (error) => Effect.succeed(fromError(error)))
    )
  }
})

/** The tool of a call that another process has begun, where its server is away by now, or does not list the tool any more. */
export const missing = ({ agent, skill, tool }: Pick<StoredTask, "agent" | "skill" | "tool">): Tool => {
  const message = `The call cannot go on: the MCP server ${agent} cannot be reached, or no longer has the tool`
  return {
    name: tool,
    kind: "mcp",
    agent,
    endpoint: null,
    skill,
    description: message,
    inputSchema: {},
    timeoutMs: undefined,
    isIdempotent: false,
    isPolling: false,
    approval: undefined,
    identify: Effect.succeed(null),
    call: () => Effect.succeed({ state: "failed", content: message, error: { code: "unreachable", message } })
  }
}
