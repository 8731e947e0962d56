// The least that a gateway has to do, on bare Node.js: ask a provider, parse what it streams, and send it on as frames.
import { Agent, type IncomingMessage, request as ask, type ServerResponse } from "node:http"
import { type ChatChunk, type PlanRequest, readBody, serve } from "./Traffic.ts"

const [provider = ""] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })

const relay = (answer: IncomingMessage, response: ServerResponse): void => {
  let seq = 0
  let rest = ""
  const emit = (event: string, data: unknown) =>
    response.write(`id: ${++seq}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform" })
  answer.setEncoding("utf8")
  answer.on("data", (piece: string) => {
    const lines = (rest + piece).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue
      const { choices } = JSON.parse(line.slice(6)) as ChatChunk
      const delta = choices[0]?.delta?.content
      if (delta !== undefined) emit("text.delta", { step: 1, attempt: 1, delta })
    }
  })
  answer.on("end", () => {
    emit("done", {})
    response.end()
  })
}

await serve(async (request, response) => {
  const { question, preferences } = await readBody<PlanRequest>(request)
  const model = preferences.model.slice(preferences.model.indexOf("/") + 1)
  const upstream = ask(
    `${provider}/v1/chat/completions`,
    { agent, method: "POST", headers: { "content-type": "application/json" } },
    (answer) => relay(answer, response)
  )
  upstream.on("error", () => response.destroy())
  response.on("close", () => upstream.destroy())
  upstream.end(JSON.stringify({ model, stream: true, messages: [{ role: "user", content: question }] }))
})
