// A provider of Chat Completions on bare Node.js, in a process of its own: its CPU is nobody's.
import type { ServerResponse } from "node:http"
import { setImmediate, setTimeout } from "node:timers/promises"
import { type ChatRequest, chunks, models, readBody, serve } from "./Wire.ts"

const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 0, model: "bench" }
const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
const chunk = (delta: unknown, finish_reason: string | null = null): string =>
  event({ ...head, choices: [{ index: 0, delta, finish_reason }] })
const usage = event({ ...head, choices: [], usage: { prompt_tokens: 20, completion_tokens: chunks, total_tokens: 52 } })

const quick = async (response: ServerResponse): Promise<void> => {
  for (let index = 0; index < chunks; index++) {
    response.write(chunk({ content: `word ${index} ` }))
    await setImmediate()
  }
  response.end(`${chunk({}, "stop")}${usage}data: [DONE]\n\n`)
}

const slow = async (response: ServerResponse): Promise<void> => {
  while (!response.destroyed) {
    response.write(chunk({ content: "word " }))
    await setTimeout(4_000 + Math.random() * 2_000)
  }
}

await serve(async (request, response) => {
  const { model } = await readBody<ChatRequest>(request)
  response.writeHead(200, { "content-type": "text/event-stream" })
  return models.slow.endsWith(`/${model}`) ? slow(response) : quick(response)
})
