import type { McpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, Effect, Layer, type Schema, type Scope } from "effect"
import type { ReceivedFile, Route } from "./PeerClient.ts"

export type { McpServer }

type JsonObject = { readonly [key: string]: Schema.Json }

/** A tool as its server lists it. Everything in it is the server's word. */
export interface McpTool {
  readonly name: string
  readonly description: string | null
  readonly inputSchema: JsonObject
  readonly outputSchema: JsonObject | null
  /** The server says that the tool may destroy something. */
  readonly isDestructive: boolean
  /** The server takes calls of it only as tasks of its own, which the client asks for until they end. */
  readonly needsTask?: boolean
}

/** One call of a tool. `taskId` goes with it as the idempotency key, unless it has another one. */
export interface McpCall {
  readonly tool: McpTool
  readonly taskId: TaskId
  readonly idempotencyKey?: string | undefined
  /** It has matched the tool's schema. */
  readonly input: JsonObject
  /** The mark of the question that an earlier process has asked. The call goes on with the answer to it, and is not made anew. */
  readonly resumes?: string | undefined
  /** Whether the next process goes on with the call: then an interruption leaves what runs of it at the server. */
  readonly isHandedOver?: (() => boolean) | undefined
  /**
   * Answers what the server asks in the middle of the call. Undefined ends the call as `input-required`, as it is where nobody can be asked; `expired`
   * ends it as `timed-out`, and tells the server that its question is cancelled.
   */
  readonly answer?: ((question: McpQuestion) => Effect.Effect<McpAnswer | "expired" | undefined>) | undefined
}

/** What a server asks: to fill in the form of this schema, or to visit the page at this URL, which nobody fetches. */
export interface McpQuestion {
  readonly message: string
  readonly schema: JsonObject | null
  readonly url?: string
  /** All that another process needs to go on with the call. Without it the server waits at an open connection. */
  readonly mark?: string
}

/** What somebody has answered: `content` is that of the form, if it was accepted. */
export interface McpAnswer {
  readonly action: "accept" | "decline" | "cancel"
  readonly content?: JsonObject | undefined
}

/** What a call gave: texts, with the links beside them in words, the files and where links lead, and the structured content, if there is any. */
export interface McpResult {
  /**
   * `canceled`: the server has cancelled the task that it has made of the call. `input-required`: it asks the caller for something before it goes on. `timed-out`: it has
   * asked, and nobody has answered in time.
   */
  readonly state: "completed" | "failed" | "canceled" | "input-required" | "timed-out"
  readonly text: string
  readonly structured: Schema.Json | undefined
  readonly files?: ReadonlyArray<ReceivedFile>
}

/** A server that is connected for as long as the scope of its plan. */
export interface McpConnection {
  /** What the server says of itself, if it does. */
  readonly description?: string | null
  /** The tools of all pages, 100 at most. Every one of `allowed_tools` that is missing is missing here, too. */
  readonly tools: Effect.Effect<ReadonlyArray<McpTool>, PeerError>
  /** Whether the server may list other tools than when it was asked last. Asks the server nothing. */
  readonly hasChanged: Effect.Effect<boolean>
  /**
   * Makes a call, and waits until it ends, however long: the time is bounded by whoever calls. Interruption cancels it with the server
   * and waits for nothing. The last message of its progress is told at most 4 times a second.
   */
  readonly call: (
    call: McpCall,
    onProgress: (message: string) => Effect.Effect<void>
  ) => Effect.Effect<McpResult, PeerError>
}

/** What is known of a server, for operators: the revision of the protocol that it was last spoken to in. `url` has no parameters, and is `stdio:<name>` for a command. */
export interface McpServerStatus {
  readonly url: string
  readonly revision: string | null
  /** Why the last attempt to connect has failed, and when: ISO 8601 in UTC. */
  readonly error: string | null
  readonly error_at: string | null
}

/**
 * MCP servers over streamable HTTP. Contract: `docs/reference/mcp.md`.
 *
 * @example
 * ```ts
 * import { McpClient } from "@bowline/runtime/remote/McpClient"
 *
 * // An app that calls no MCP servers. `@bowline/mcp` has the client that does.
 * export const Mcp = McpClient.layerNone
 * ```
 */
export class McpClient extends Context.Service<
  McpClient,
  {
    /**
     * Connects a plan that has come this way to a server of its request. Where it `answers` what servers ask, the server is told so. Closing the scope ends
     * the server's session in the background.
     */
    readonly connect: (
      server: McpServer,
      route: Route,
      answers?: boolean
    ) => Effect.Effect<McpConnection, PeerError, Scope.Scope>
    /** The servers that this process has spoken to. */
    readonly servers: Effect.Effect<ReadonlyArray<McpServerStatus>>
  }
>()("@bowline/runtime/remote/McpClient") {
  /** For an app without MCP servers: one that a request names cannot be reached. */
  static readonly layerNone = Layer.succeed(McpClient, {
    connect: () =>
      Effect.suspend(() =>
        Effect.fail(new PeerError({ reason: new Unreachable({ message: "This gateway calls no MCP servers" }) }))
      ),
    servers: Effect.succeed([])
  })
}
