import type { ServerTerms } from "@bowline/domain/unstable/mcp/McpServer"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { Effect, type Schema } from "effect"
import { createHash } from "node:crypto"
import type { McpConnection, McpResult, McpTool } from "../remote/McpClient.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import type { JsonSchema, Tool, ToolResult, ToolTrust } from "./Tool.ts"
import * as ToolName from "./ToolName.ts"

/** `sha256:` and the digest of the canonical JSON of what a server says of a tool: its name, its description and its schemas. */
export const hashOf = ({ description, inputSchema, name, outputSchema }: McpTool): string => {
  const said = canonicalJson({ name, description, input_schema: inputSchema, output_schema: outputSchema })
  return `sha256:${createHash("sha256").update(said).digest("hex")}`
}

/** The tool's name among those of the plan. */
export const nameOf = (server: ServerTerms, { name }: McpTool): string => ToolName.forSkill(server.name, name)

/** Says what is wrong with the structured content of a result, if anything. */
export type CheckOutput = (tool: string, schema: JsonSchema, output: Schema.Json) => Effect.Effect<string | undefined>

const fromError = ({ reason }: PeerError): ToolResult => ({
  state: "failed",
  content: reason.message,
  error: { code: reason._tag, message: reason.message }
})

const contentOf = ({ structured, text }: McpResult): string =>
  text === "" && structured !== undefined ? JSON.stringify(structured) : text

const excerpt = (text: string): string => text.slice(0, 500).toWellFormed()

const fromResult = (result: McpResult): ToolResult => {
  const content = contentOf(result)
  switch (result.state) {
    case "completed":
      return { state: "completed", content }
    case "failed":
      return { state: "failed", content, error: { code: "tool_failed", message: excerpt(content) } }
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
  check: CheckOutput
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
  approval: server.approval,
  trust,
  ...(tool.isDestructive && { approvalReason: "sensitive" }),
  identify: Effect.succeed(null),
  call: ({ input, onEvent, taskId }) =>
    connection
      .call({ tool, input, taskId }, (message) => onEvent({ _tag: "Progress", state: "working", message }))
      .pipe(
        Effect.flatMap((result) =>
          Effect.map(outputProblem(tool, result, check), (problem) =>
            problem === undefined ? fromResult(result) : mismatched(result, problem)
          )
        ),
        Effect.catchTag("PeerError", (error) => Effect.succeed(fromError(error)))
      )
})
