import type { Redacted } from "effect"

/** A server of OpenAI, or one with the same API. */
export interface OpenAiServer {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /** With `/v1`, or what the server has in its place. Requests keep its query. */
  readonly baseUrl: string
  /** Some servers need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}
