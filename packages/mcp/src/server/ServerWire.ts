import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import type { RequestOptions } from "@modelcontextprotocol/client"
import type { Effect } from "effect"
import type { Ask } from "../http/ServerFetch.ts"

/** How a server is spoken to: with a handshake, or in this revision, which has none. */
export type Era = "legacy" | { readonly pin: string }

/** What lies below the protocol's client. */
export interface Wire {
  /** For one request, which may be a call. */
  readonly ask: (call?: string) => Ask
  /** For a handshake. */
  readonly handshake: () => Ask
  /** Closes what a call waits on. */
  readonly close: (call: string) => Effect.Effect<void>
}

export interface Options {
  readonly wire: Wire
  readonly redaction: Redaction
  /** Without one it is found out. */
  readonly era: Era | undefined
  /** Whether the server is told that somebody answers what it asks in a call. */
  readonly answers: boolean
}

export type Request<A> = (options: Required<Pick<RequestOptions, "headers" | "signal" | "timeout">>) => Promise<A>
