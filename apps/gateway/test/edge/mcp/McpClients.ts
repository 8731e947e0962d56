import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { Effect, type Scope } from "effect"
import { Client as Client1 } from "mcp-sdk-1/client/index.js"
import { StreamableHTTPClientTransport as Transport1 } from "mcp-sdk-1/client/streamableHttp.js"

interface CallOptions {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: { readonly progress: number; readonly message?: string | undefined }) => void
}

interface Tool {
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: object
  readonly outputSchema?: object | undefined
}

interface ToolResult {
  readonly content?: unknown
  readonly structuredContent?: unknown
  readonly isError?: boolean | undefined
}

/** What clients read beside tools. */
interface Contents {
  readonly listPrompts: () => Promise<{ readonly prompts: ReadonlyArray<{ readonly name: string }> }>
  readonly getPrompt: (params: { readonly name: string }) => Promise<{ readonly messages: ReadonlyArray<unknown> }>
  readonly listResources: (params: { readonly cursor?: string }) => Promise<{
    readonly resources: ReadonlyArray<{ readonly uri: string; readonly mimeType?: string | undefined }>
    readonly nextCursor?: string | undefined
  }>
  readonly listResourceTemplates: () => Promise<{ readonly resourceTemplates: ReadonlyArray<unknown> }>
  readonly readResource: (params: { readonly uri: string }) => Promise<{ readonly contents: ReadonlyArray<unknown> }>
}

/** An official client that is connected. */
export interface Connected extends Contents {
  readonly revision: string | undefined
  readonly tools: Effect.Effect<ReadonlyArray<Tool>>
  readonly call: (name: string, input: Record<string, unknown>, options?: CallOptions) => Effect.Effect<ToolResult>
}

interface Options {
  readonly key?: string
  /** What the client's user answers when the gateway asks. Without it the client cannot ask. */
  readonly elicit?: () => {
    readonly action: "accept" | "decline" | "cancel"
    readonly content?: Record<string, string>
  }
}

const info = { name: "test", version: "1.0.0" }

const init = ({ key }: Options) => ({
  requestInit: { headers: key === undefined ? {} : { authorization: `Bearer ${key}` } }
})

interface AnyClient {
  readonly listTools: () => Promise<{ readonly tools: ReadonlyArray<Tool> }>
  readonly callTool: (
    params: { readonly name: string; readonly arguments: Record<string, unknown> },
    options: CallOptions
  ) => Promise<ToolResult>
}

const contentsOf = (client: Contents): Contents => ({
  listPrompts: () => client.listPrompts(),
  getPrompt: (params) => client.getPrompt(params),
  listResources: (params) => client.listResources(params),
  listResourceTemplates: () => client.listResourceTemplates(),
  readResource: (params) => client.readResource(params)
})

const connected = (client: AnyClient, contents: Contents, revision: string | undefined): Connected => ({
  ...contents,
  revision,
  tools: Effect.promise(async () => (await client.listTools()).tools),
  call: (name, input, options = {}) => Effect.promise(() => client.callTool({ name, arguments: input }, options))
})

/** `@modelcontextprotocol/client` 2, in one era of the protocol. */
const version2 =
  (mode: "legacy" | { readonly pin: string }) =>
  (url: string, options: Options = {}): Effect.Effect<Connected, never, Scope.Scope> =>
    Effect.gen(function* () {
      const { elicit } = options
      const client = new Client(info, {
        versionNegotiation: { mode },
        ...(elicit !== undefined && { capabilities: { elicitation: { form: {} } } })
      })
      if (elicit !== undefined) client.setRequestHandler("elicitation/create", async () => elicit())
      yield* Effect.promise(() =>
        client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), init(options)))
      )
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const listTools = () => client.listTools()
      const callTool: AnyClient["callTool"] = (params, given) => client.callTool(params, given)
      return connected({ listTools, callTool }, contentsOf(client), client.getNegotiatedProtocolVersion())
    })

/** `@modelcontextprotocol/sdk` 1. */
const version1 = (url: string, options: Options = {}): Effect.Effect<Connected, never, Scope.Scope> =>
  Effect.gen(function* () {
    const client = new Client1(info)
    const transport = new Transport1(new URL(`${url}/mcp`), init(options))
    yield* Effect.promise(() => client.connect(transport as Parameters<typeof client.connect>[0]))
    yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
    const listTools = () => client.listTools()
    const callTool: AnyClient["callTool"] = async (params, given) =>
      (await client.callTool(params, undefined, given)) as ToolResult
    return connected({ listTools, callTool }, contentsOf(client), transport.protocolVersion)
  })

/** The official clients, by the revision that each of them agrees on with the gateway. */
export const clients = [
  ["client 2 of 2026-07-28", version2({ pin: "2026-07-28" }), "2026-07-28"],
  ["client 2 of 2025-11-25", version2("legacy"), "2025-11-25"],
  ["SDK 1", version1, "2025-11-25"]
] as const

export const modernClient = clients[0][1]
