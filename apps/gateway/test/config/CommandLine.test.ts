import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { CommandLine } from "../../src/config/CommandLine.ts"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"
import { load } from "./file/ConfigFolder.ts"

const read = (commandLine: Partial<CommandLine>) => fromEnvironment({}, false, commandLine)

describe("the agents and MCP servers of the command line", () => {
  it.effect("are those of the preset default, with names of their own or out of what they are", () =>
    Effect.gen(function* () {
      const { mcpServers, presets } = yield* read({
        agents: [
          "http://127.0.0.1:1/",
          "https://www.weather.example/a2a",
          "sky=http://localhost:2/?a=b",
          "http://[::1]/"
        ],
        mcp: [
          "https://docs.example/mcp",
          "npx -y @modelcontextprotocol/server-everything --verbose",
          "node packages/orders/dist/index.js",
          `files=node "a server.mjs" 'of files'`
        ]
      })
      assert.deepStrictEqual(
        presets[0]?.agents.map(({ endpoint, name }) => [name, endpoint]),
        [
          ["agent", "http://127.0.0.1:1/"],
          ["weather", "https://www.weather.example/a2a"],
          ["sky", "http://localhost:2/?a=b"],
          ["agent-2", "http://[::1]/"]
        ]
      )
      assert.deepStrictEqual(
        mcpServers.servers
          .get("default")
          ?.map((server) => ("url" in server ? server.url : [server.command, server.args?.map(Redacted.value)])),
        [
          "https://docs.example/mcp",
          ["npx", ["-y", "@modelcontextprotocol/server-everything", "--verbose"]],
          ["node", ["packages/orders/dist/index.js"]],
          ["node", ["a server.mjs", "of files"]]
        ]
      )
      assert.deepStrictEqual(
        mcpServers.servers.get("default")?.map(({ name }) => name),
        ["docs", "server-everything", "orders", "files"]
      )
    })
  )

  it.effect("come behind those of the file, whose names they leave alone", () =>
    Effect.gen(function* () {
      const file = "agents: [{ name: agent, endpoint: 'http://127.0.0.1:1/' }]"
      const { presets } = yield* load("a.yaml", file, {}, { agents: ["http://127.0.0.1:2/"] })
      assert.deepStrictEqual(
        presets[0]?.agents.map(({ name }) => name),
        ["agent", "agent-2"]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("are checked, and what is wrong is named by its flag, without its value", () =>
    Effect.gen(function* () {
      const { problems } = yield* Effect.flip(
        read({ agents: ["ftp://planted"], mcp: ["docs=http://a:planted@b/", " "] })
      )
      assert.deepStrictEqual(problems.map(formatProblem), [
        "--agent: Expected an http or https URL",
        "--mcp: Expected no credentials in the URL: use auth or headers",
        "--mcp: Expected a value with a length of at least 1"
      ])
    })
  )
})
