import { Effect } from "effect"
import OpenAI from "openai"

export const client = (url: string, apiKey = "none") => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })

export const ask = { model: "bowline", messages: [{ role: "user" as const, content: "?" }] }

/** Everything that a stream says before it ends or fails. */
export const readOut = (url: string, fields: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async () => {
    const chunks: Array<OpenAI.ChatCompletionChunk> = []
    const stream = await client(url).chat.completions.create({ ...ask, stream: true, ...fields }, { headers })
    try {
      for await (const chunk of stream) chunks.push(chunk)
    } catch (cause) {
      return { chunks, cause }
    }
    return { chunks, cause: undefined }
  })

export const contentOf = (chunks: ReadonlyArray<OpenAI.ChatCompletionChunk>) =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")
