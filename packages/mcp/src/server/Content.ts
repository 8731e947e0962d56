import type { McpResult, McpTool } from "@bowline/runtime/remote/McpClient"
import type { ReceivedFile } from "@bowline/runtime/remote/PeerClient"
import type { CallToolResult, ContentBlock, Tool } from "@modelcontextprotocol/client"
import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import type { Schema } from "effect"

const isJson = (value: unknown): value is Schema.Json => JsonValue.problem(value) === undefined
const isObject = (value: unknown): value is { readonly [key: string]: Schema.Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && isJson(value)

/** The file of a block, if it is one, or leads to one. */
const fileOf = (block: ContentBlock): ReadonlyArray<ReceivedFile> => {
  switch (block.type) {
    case "text":
      return []
    case "image":
    case "audio":
      return [{ mediaType: block.mimeType, data: block.data }]
    case "resource_link":
      return [{ mediaType: block.mimeType ?? "", name: block.name, url: block.uri }]
    case "resource": {
      const { resource } = block
      if (!("blob" in resource)) return []
      return [{ mediaType: resource.mimeType ?? "", name: resource.uri, data: resource.blob }]
    }
  }
}

/** A block as text for the model; what is kept as a file has none. Nothing is fetched here: a link is handed on as it is. */
const textOf = (block: ContentBlock): string => {
  switch (block.type) {
    case "text":
      return block.text
    case "image":
    case "audio":
      return ""
    case "resource_link":
      return `[link] ${block.name}: ${block.uri}${block.description === undefined ? "" : ` (${block.description})`}`
    case "resource": {
      const { resource } = block
      return "text" in resource ? `[resource ${resource.uri}]\n${resource.text}` : ""
    }
  }
}

/** A result in the gateway's words, or what is wrong with it. */
export const toResult = ({ content, isError, structuredContent }: CallToolResult): McpResult | string => {
  if (structuredContent !== undefined && !isJson(structuredContent)) return "The structured content is not plain JSON"
  const files = content.flatMap(fileOf)
  const texts = content.flatMap((block) => (block.type === "text" || textOf(block) !== "" ? [textOf(block)] : []))
  return {
    state: isError === true ? "failed" : "completed",
    text: texts.join("\n").toWellFormed(),
    structured: structuredContent,
    ...(files.length > 0 && { files })
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
