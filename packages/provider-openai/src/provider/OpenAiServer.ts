import type { Redacted } from "effect"

/** A server of OpenAI's, or one that speaks as it does. */
export interface OpenAiServer {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /** With `/v1`, or what the server has in its place. A query is kept. */
  readonly baseUrl: string
  /** A server of one's own may need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}
