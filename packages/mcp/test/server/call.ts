import { McpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { McpCall, McpConnection } from "@bowline/runtime/remote/McpClient"
import { Effect, Schema } from "effect"

export const taskId = TaskId.make("00000000-0000-4000-8000-000000000001")

export const serverAt = (url: string, fields: object = {}): McpServer =>
  Schema.decodeUnknownSync(McpServer)({ name: "weather", url: `${url}/mcp`, ...fields })

/** Calls a tool that the server lists. */
export const callTool = Effect.fnUntraced(function* (
  connection: McpConnection,
  name: string,
  input: McpCall["input"] = { city: "Oslo" },
  onProgress: (message: string) => Effect.Effect<void> = () => Effect.void,
  rest: Pick<McpCall, "answer" | "isHandedOver" | "resumes"> = {}
) {
  const tool = (yield* connection.tools).find((tool) => tool.name === name)
  if (tool === undefined) return yield* Effect.die(`The server has no tool ${name}`)
  return yield* connection.call({ tool, taskId, input, ...rest }, onProgress)
})
