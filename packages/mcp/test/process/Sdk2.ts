/** A server of the SDK's second line over stdio: it speaks all revisions. */
import { fromJsonSchema, McpServer } from "@modelcontextprotocol/server"
import { askBySdk2 } from "../server/Asking.ts"
import { serveStdio } from "@modelcontextprotocol/server/stdio"

const inputSchema = fromJsonSchema<{ readonly city: string }>({
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"]
})

serveStdio(() => {
  const server = new McpServer({ name: "sdk-2", version: "1.0.0" })
  server.registerTool("forecast", { inputSchema }, ({ city }) => ({
    content: [{ type: "text", text: `clear in ${city}` }]
  }))
  server.registerTool("wait", { inputSchema }, async (_input, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken ?? 0
    await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 1 } })
    await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve))
    process.stderr.write("aborted\n")
    process.exit(9)
  })
  askBySdk2(server, { calls: [], ended: [] })
  return server
})
