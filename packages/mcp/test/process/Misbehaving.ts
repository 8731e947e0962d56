/** A server over stdio of revision 2025-11-25 that behaves as its first argument says. It adds a line with its process id to the file of the second one. */
import { appendFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [behaviour = "", file = ""] = process.argv.slice(2)
appendFileSync(file, `${process.pid}\n`)

const say = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)

interface Request {
  readonly id?: number
  readonly method: string
  readonly params?: { readonly _meta?: object; readonly arguments?: { readonly city?: string } }
}

const about = {
  protocolVersion: "2025-11-25",
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: "misbehaving", version: "1.0.0" }
}

const text = (value: string) => ({ content: [{ type: "text", text: value }] })

const call = (id: number | undefined, { _meta, arguments: { city = "" } = {} }: NonNullable<Request["params"]>) => {
  switch (city) {
    case "crash":
      return process.exit(3)
    case "change":
      say({ method: "notifications/tools/list_changed" })
      return say({ id, result: text("changed") })
    case "huge":
      return process.stdout.write(`${"x".repeat(100_000_000)}\n`)
    case "never":
      return appendFileSync(file, "never\n")
    case "chatter":
      for (let count = 0; count < 6_000; count++) say({ method: "notifications/tools/list_changed" })
      return say({ id, result: text("at last") })
    case "environment":
      return say({ id, result: text(JSON.stringify(process.env)) })
    case "meta":
      return say({ id, result: text(JSON.stringify(_meta)) })
    case "secret":
      return say({ id, result: text(`the token is ${process.env["API_TOKEN"]}`) })
    default:
      return say({ id, result: text(`clear in ${city}`) })
  }
}

const answer = ({ id, method, params }: Request) => {
  switch (method) {
    case "server/discover":
      if (behaviour === "old") process.exit(1)
      return say({ id, error: { code: -32601, message: "Method not found" } })
    case "initialize":
      return say({ id, result: about })
    case "tools/list":
      if (behaviour === "hangs") return appendFileSync(file, "tools/list\n")
      return say({ id, result: { tools: [{ name: "forecast", inputSchema: { type: "object" } }] } })
    case "tools/call":
      return call(id, params ?? {})
    case "notifications/cancelled":
      return appendFileSync(file, "cancelled\n")
  }
}

const serve = () => {
  const lines = createInterface({ input: process.stdin })
  lines.on("line", (line) => answer(JSON.parse(line) as Request))
  if (behaviour !== "stubborn") lines.on("close", () => process.exit(0))
}

switch (behaviour) {
  case "exits":
    process.stderr.write("no configuration\n")
    process.exit(7)
  case "rubbish":
    process.stdout.write("hello\n{}\n[1, 2\n".repeat(1_000))
    serve()
    break
  case "only-rubbish":
    setInterval(() => process.stdout.write("rubbish\n".repeat(100_000)), 1)
    break
  case "floods":
    setInterval(() => process.stderr.write("x".repeat(1_000_000)), 1)
    serve()
    break
  case "silent":
    process.stdin.resume()
    break
  case "stubborn":
    process.on("SIGTERM", () => appendFileSync(file, "SIGTERM\n"))
    setInterval(() => undefined, 1_000)
    serve()
    break
  default:
    serve()
}
