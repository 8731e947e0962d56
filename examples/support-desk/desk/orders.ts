import { fromJsonSchema, McpServer } from "@modelcontextprotocol/server"
import { serveStdio } from "@modelcontextprotocol/server/stdio"

const orders = new Map([
  [1042, "a lamp for 49 EUR, delivered 12 days ago"],
  [1043, "a chair for 120 EUR, on its way"]
])

const inputSchema = fromJsonSchema<{ readonly order: number }>({
  type: "object",
  properties: { order: { type: "integer", description: "The number of the order" } },
  required: ["order"]
})

const text = (text: string) => ({ content: [{ type: "text" as const, text }] })

// One program, two servers: what reads, and, with `--payments`, what pays.
serveStdio(() => {
  if (process.argv.includes("--payments")) {
    const server = new McpServer({ name: "payments", version: "1.0.0" })
    server.registerTool("refund", { description: "Refunds an order", inputSchema }, ({ order }) =>
      text(`Order ${order} is refunded`)
    )
    return server
  }
  const server = new McpServer({ name: "orders", version: "1.0.0" })
  server.registerTool("find", { description: "Finds an order by its number", inputSchema }, ({ order }) =>
    text(`Order ${order}: ${orders.get(order) ?? "there is none"}`)
  )
  return server
})
