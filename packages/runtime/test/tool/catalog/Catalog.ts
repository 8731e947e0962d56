import type { Tool } from "../../../src/tool/Tool.ts"
import { Effect } from "effect"
import servers from "./servers.json" with { type: "json" }

/** What a verb does with a thing, as a description says it. */
const doing: Readonly<Record<string, string>> = {
  create: "Creates a new",
  list: "Lists every",
  get: "Returns the details of one",
  update: "Changes the fields of an existing",
  delete: "Removes a",
  search: "Looks for each matching",
  close: "Closes an open",
  comment: "Adds a remark to a",
  assign: "Gives somebody the responsibility for a",
  cancel: "Cancels a",
  send: "Sends a",
  logs: "Shows the output that was logged by a"
}

const plain = (name: string): string => name.replaceAll("_", " ")

const property = (name: string) => [name, { type: "string", description: `The ${plain(name)}` }] as const

/**
 * Some 1,000 tools, of 69 kinds of servers. `servers.json` says what each is about, and its things with what can be done with them: `thing: verbs | arguments`. The names
 * and texts are made for the tests; they follow what public servers offer.
 */
export const tools: ReadonlyArray<Tool> = Object.entries(servers).flatMap(([server, { about, things }]) =>
  things.flatMap((line) => {
    const [head = "", args = ""] = line.split(" | ")
    const [thing = "", verbs = ""] = head.split(": ")
    return verbs.split(" ").map((verb): Tool => {
      const what = doing[verb] ?? `${plain(verb).replace(/^./u, (first) => first.toUpperCase())} a`
      return {
        name: `${server}_${verb}_${thing}`,
        kind: "mcp",
        agent: server,
        endpoint: null,
        skill: `${verb}_${thing}`,
        description: `${what} ${plain(thing)}. ${about}.`,
        inputSchema: { type: "object", properties: Object.fromEntries(args.split(" ").map(property)) },
        timeoutMs: undefined,
        isIdempotent: false,
        isPolling: false,
        approval: undefined,
        identify: Effect.succeed(null),
        call: () => Effect.succeed({ state: "completed", content: `${server}_${verb}_${thing} is done` })
      }
    })
  })
)
