// A provider of Chat Completions on bare Node.js, in a process of its own: its CPU is nobody's.
import type { ServerResponse } from "node:http"
import { setImmediate, setTimeout } from "node:timers/promises"
import { askings, type ChatRequest, closings, models, now, readBody, serve } from "./Traffic.ts"

const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 0, model: "bench" }
const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
const chunk = (delta: unknown, finish_reason: string | null = null): string =>
  event({ ...head, choices: [{ index: 0, delta, finish_reason }] })
const end = (completion_tokens: number): string => {
  const usage = { prompt_tokens: 20, completion_tokens, total_tokens: 20 + completion_tokens }
  return `${event({ ...head, choices: [], usage })}data: [DONE]\n\n`
}

const quick = async (chunks: number, response: ServerResponse): Promise<void> => {
  for (let index = 0; index < chunks; index++) {
    response.write(chunk({ content: `word ${index} ` }))
    await setImmediate()
  }
  response.end(`${chunk({}, "stop")}${end(chunks)}`)
}

const wordsAtHand =
  `the of and to in is that for it as with on by from at this which be or are not has have was were will can when where who what how
  rope knot load end loop line hand turn hitch bend splice ship sail mast deck harbour water wind wave tide storm anchor chain winch block
  holds jams slips runs turns pulls lifts ties bears breaks works keeps gives takes makes finds shows tells begins stays goes comes stands
  first second last next other same small large long short strong weak safe simple quick slow early late good better best never always often
  under over through around behind between without against while because before after until since though however therefore instead`.split(
    /\s+/
  )

/** Prose as hard to compress as that of a model, or harder: no phrase comes twice but by chance. */
const anyWord = () => wordsAtHand[Math.floor(Math.random() * wordsAtHand.length)] ?? ""

/** So many words, 50 a second. */
const speak = async (chunks: number, response: ServerResponse, word: () => string): Promise<void> => {
  const began = now()
  for (let index = 0; index < chunks; index++) {
    response.write(chunk({ content: `${word()} ` }))
    await setTimeout(Math.max(0, began + (index + 1) * 20 - now()))
  }
  response.end(`${chunk({}, "stop")}${end(chunks)}`)
}

/** When slow streams were asked for and when their sockets were closed, by their questions, in milliseconds of the clock that all processes of a machine share. */
const asked: { [question: string]: number } = {}
const closed: { [question: string]: number } = {}

const slow = async ({ messages }: ChatRequest, response: ServerResponse): Promise<void> => {
  const question = String(messages.findLast(({ role }) => role === "user")?.content)
  asked[question] = now()
  response.on("close", () => (closed[question] = now()))
  while (!response.destroyed) {
    response.write(chunk({ content: "word " }))
    await setTimeout(4_000 + Math.random() * 2_000)
  }
}

const call = ({ messages, tools }: ChatRequest, response: ServerResponse): void => {
  const question = messages.findLast(({ role }) => role === "user")?.content
  const made = {
    index: 0,
    id: "call-1",
    type: "function",
    function: { name: tools?.[0]?.function.name, arguments: JSON.stringify({ input: question }) }
  }
  response.end(`${chunk({ tool_calls: [made] })}${chunk({}, "tool_calls")}${end(1)}`)
}

const asking = (asked: ChatRequest, response: ServerResponse): void => {
  if (asked.messages.at(-1)?.role !== "tool") return call(asked, response)
  response.end(`${chunk({ content: "done" })}${chunk({}, "stop")}${end(1)}`)
}

/** Answers to a model that is faulty, of which each comes as often as its weight says. Silence is rare: it closes a credential for 30 s. */
const faults: ReadonlyArray<readonly [weight: number, answer: (response: ServerResponse) => unknown]> = [
  [860, (response) => quick(32, response)],
  [40, (response) => response.write(chunk({ content: "cut " }), () => response.destroy())],
  [30, (response) => response.end(chunk({ content: "not the end " }))],
  [2, (response) => response.write(chunk({ content: "silence " }))],
  [1, () => undefined],
  [30, (response) => response.writeHead(500).end("{}")],
  [20, (response) => response.writeHead(429, { "retry-after-ms": "200" }).end("{}")],
  [17, (response) => response.destroy()]
]

const faulty = (response: ServerResponse): unknown => {
  let drawn = Math.random() * faults.reduce((sum, [weight]) => sum + weight, 0)
  return faults.find(([weight]) => (drawn -= weight) < 0)?.[1](response)
}

await serve(async (request, response) => {
  if (request.url === closings) return void response.end(JSON.stringify(closed))
  if (request.url === askings) return void response.end(JSON.stringify(asked))
  const chat = await readBody<ChatRequest>(request)
  const isFor = (name: string) => name.endsWith(`/${chat.model}`)
  response.setHeader("content-type", "text/event-stream")
  if (isFor(models.faulty)) return void faulty(response)
  response.writeHead(200)
  if (isFor(models.asking)) return asking(chat, response)
  if (isFor(models.slow)) return slow(chat, response)
  const [kind, chunks] = chat.model.split("-")
  const results = chat.messages.filter(({ role }) => role === "tool").length
  if (kind === "calling" && results < 3) return call(chat, response)
  if (kind === "quick" || kind === "calling") return quick(Number(chunks), response)
  return speak(Number(chunks), response, kind === "paced" ? anyWord : () => `@${now().toFixed(2)}`)
})
