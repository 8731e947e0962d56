// A peer in A2A 0.3 on bare Node.js, in a process of its own. The question says how it answers, and after how many
// milliseconds: `once 0`, `stream 700`, `poll 700`. To `hang 0` it never answers.
import { randomUUID } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import { readBody, type RpcRequest, serve } from "./Traffic.ts"

const ends = new Map<string, number>()

const task = (id: string, isDone: boolean) => ({
  kind: "task",
  id,
  contextId: id,
  status: { state: isDone ? "completed" : "working" },
  artifacts: isDone ? [{ artifactId: "answer", parts: [{ kind: "text", text: "done" }] }] : []
})

await serve(async (request, response) => {
  const { id: rpcId, method, params } = await readBody<RpcRequest>(request)
  const reply = (result: unknown): string => JSON.stringify({ jsonrpc: "2.0", id: rpcId, result })
  if (params.message === undefined) {
    response.writeHead(200, { "content-type": "application/json" })
    response.end(reply(task(params.id ?? "", performance.now() >= (ends.get(params.id ?? "") ?? 0))))
    return
  }
  const [kind, duration = "0"] = (params.message.parts[0]?.text ?? "").split(" ")
  if (kind === "hang") return
  const id = randomUUID()
  ends.set(id, performance.now() + Number(duration))
  if (method === "message/stream") {
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.write(`data: ${reply(task(id, false))}\n\n`)
    await setTimeout(Number(duration))
    response.end(`data: ${reply(task(id, true))}\n\n`)
    return
  }
  response.writeHead(200, { "content-type": "application/json" })
  response.end(reply(task(id, duration === "0")))
})
