import type { McpResult, McpTool } from "@bowline/runtime/remote/McpClient"
import type { CallToolResult, ContentBlock, Tool } from "@modelcontextprotocol/client"
import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import type { Schema } from "effect"

const isJson = (value: unknown): value is Schema.Json => JsonValue.problem(value) === undefined
const isObject = (value: unknown): value is { readonly [key: string]: Schema.Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && isJson(value)

const bytesOf = (base64: string): number => Math.floor((base64.length * 3) / 4)

/** A block as text for the model. Nothing is fetched: a link is handed on as it is. */
const textOf = (block: ContentBlock): string => {
  switch (block.type) {
    case "text":
      return block.text
    case "image":
    case "audio":
      return `[${block.type} of type ${block.mimeType}, ${bytesOf(block.data)} bytes]`
    case "resource_link":
      return `[link] ${block.name}: ${block.uri}${block.description === undefined ? "" : ` (${block.description})`}`
    case "resource": {
      const { resource } = block
      if ("text" in resource) return `[resource ${resource.uri}]\n${resource.text}`
      return `[resource ${resource.uri} of type ${resource.mimeType ?? "unknown"}, ${bytesOf(resource.blob)} bytes]`
    }
  }
}

/** A result in the gateway's words, or what is wrong with it. */
export const toResult = ({ content, isError, structuredContent }: CallToolResult): McpResult | string => {
  if (structuredContent !== undefined && !isJson(structuredContent)) return "The structured content is not plain JSON"
  return {
    state: isError === true ? "failed" : "completed",
    text: content.map(textOf).join("\n").toWellFormed(),
    structured: structuredContent
  }
}

/** A tool in the gateway's words. Those whose schemas are not plain JSON are hidden, and so are those that need tasks where the server has none. */
export const toTool = (
  { annotations, description, execution, inputSchema, name, outputSchema }: Tool,
  hasTasks: boolean
): ReadonlyArray<McpTool> => {
  const needsTask = execution?.taskSupport === "required"
  if ((needsTask && !hasTasks) || !isObject(inputSchema)) return []
  if (outputSchema !== undefined && !isObject(outputSchema)) return []
  return [
    {
      name,
      description: description ?? annotations?.title ?? null,
      inputSchema,
      outputSchema: outputSchema ?? null,
      isDestructive: annotations?.destructiveHint === true,
      ...(needsTask && { needsTask })
    }
  ]
}
