import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

/** What a provider is asked for, and what it sends of it. */
export interface ChatRequest {
  readonly model: string
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
}
export interface ChatChunk {
  readonly choices: ReadonlyArray<{ readonly delta?: { readonly content?: string } }>
}

/**
 * A model that sends a word every few seconds for as long as somebody listens, one that passes the question on to its first tool, and
 * one that answers or fails, in any way in which a provider can.
 */
export const models = { slow: "openai/slow", asking: "openai/asking", faulty: "openai/faulty" } as const

/** A model that answers as fast as it can, with so many words: each is a chunk of its own. */
export const quick = (chunks: number): string => `openai/quick-${chunks}`

/** A model that passes the question on to its first tool three times, and then says so many words, as fast as it can. */
export const calling = (chunks: number): string => `openai/calling-${chunks}`

/** A model that says so many words of prose, 50 a second: each is a chunk of its own. */
export const paced = (chunks: number): string => `openai/paced-${chunks}`

/** The same, but each word is the time at which it is sent. */
export const timed = (chunks: number): string => `openai/timed-${chunks}`

/** Where the provider says which slow streams were asked for, by their questions, and when; and which have ended. */
export const askings = "/askings"
export const closings = "/closings"

/** Milliseconds of a clock that all processes of a machine share, and that nobody sets. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6

/** What a peer is asked for. */
export interface RpcRequest {
  readonly id: string
  readonly method: string
  readonly params: {
    readonly id?: string
    readonly message?: { readonly parts: ReadonlyArray<{ readonly text?: string }> }
  }
}

/** What a caller posts, to the gateway and to the floor. */
export interface PlanRequest {
  readonly question: string
  readonly session_id?: string
  readonly agents?: ReadonlyArray<object>
  readonly tools?: ReadonlyArray<object>
  readonly preferences: {
    readonly model: string
    readonly timeout_ms?: number
    readonly tool_timeout_ms?: number
    readonly on_disconnect?: "continue"
    readonly wait_timeout_ms?: number
  }
}

/** Listens on a free port of the loopback address, and says where on the first line of its output. */
export const serve = async (
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>
): Promise<void> => {
  const server = createServer((request, response) => void handle(request, response)).listen(0, "127.0.0.1", 4_096)
  await once(server, "listening")
  const address = server.address()
  if (typeof address === "object" && address !== null) console.log(`http://127.0.0.1:${address.port}`)
}

export const readBody = async <A>(request: AsyncIterable<Buffer>): Promise<A> => {
  const pieces: Array<Buffer> = []
  for await (const piece of request) pieces.push(piece)
  return JSON.parse(Buffer.concat(pieces).toString()) as A
}
