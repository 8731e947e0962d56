import { inputRequired, fromJsonSchema, type McpServer as Server2 } from "@modelcontextprotocol/server"
import type { McpServer as Server1 } from "mcp-sdk-1/server/mcp.js"
import { CallToolRequestSchema, ListToolsRequestSchema, UrlElicitationRequiredError } from "mcp-sdk-1/types.js"

export const form = {
  type: "object" as const,
  properties: { days: { type: "integer" as const, minimum: 1 } },
  required: ["days"]
}
export const questions = { days: "For how many days?", page: "Sign in" }
export const url = "https://weather.test/sign-in"

const city = { type: "object" as const, properties: { city: { type: "string" as const } }, required: ["city"] }
const textOf = (said: unknown) => ({ content: [{ type: "text" as const, text: JSON.stringify(said) }] })

/** What the tools were told. */
export interface Told {
  readonly calls: Array<unknown>
  readonly ended: Array<string>
}

/** Has a server of the second line ask in its tool `trip`, by results. */
export const askBySdk2 = (server: Server2, told: Told): void => {
  server.registerTool(
    "trip",
    { inputSchema: fromJsonSchema<{ readonly city: string }>(city) },
    ({ city }, { mcpReq: { inputResponses, requestState } }) => {
      told.calls.push({ city, inputResponses, state: requestState() })
      if (inputResponses !== undefined) return textOf(inputResponses)
      return inputRequired({
        inputRequests: {
          days: inputRequired.elicit({ message: questions.days, requestedSchema: form }),
          page: inputRequired.elicitUrl({ message: questions.page, url })
        },
        requestState: `trip to ${city}`
      })
    }
  )
}

/** Has a server of the first line ask in its tool `trip`, while the call is open, and in `page` by an error. */
export const askBySdk1 = ({ server }: Server1, told: Told): void => {
  const timeout = 1_000_000_000
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: ["trip", "page"].map((name) => ({ name, inputSchema: city }))
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { requestId, signal }) => {
    told.calls.push(params.arguments)
    signal.addEventListener("abort", () => told.ended.push(params.name))
    const options = { timeout, relatedRequestId: requestId }
    const page = { mode: "url" as const, message: questions.page, url, elicitationId: "e-1" }
    if (params.name === "page") {
      if (told.calls.length > 1) return textOf("signed in")
      throw new UrlElicitationRequiredError([page])
    }
    const days = await server.elicitInput({ message: questions.days, requestedSchema: form }, options)
    return textOf({ days, page: await server.elicitInput(page, options) })
  })
}
