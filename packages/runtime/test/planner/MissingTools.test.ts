import { say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { McpTool } from "../../src/remote/McpClient.ts"
import * as Weather from "./Weather.ts"

/** What the caller is told of a plan whose server lists these tools. */
const notices = (tools: ReadonlyArray<McpTool>, body: object = {}) =>
  Effect.gen(function* () {
    const { frames } = yield* post({ question: "?", ...Weather.weather(), ...body })
    const events = yield* readAll(frames)
    assert.strictEqual(single(events, "final").text, "ok")
    return all(events, "notice")
  }).pipe(Effect.scoped, Effect.provide(layer({ script: [[say("ok")]], mcp: Weather.server(...tools).mcp })))

describe("the tools of a server that a plan does not get", () => {
  it.effect("are those whose names other tools have", () =>
    Effect.gen(function* () {
      const agents = [{ name: "weather_at", endpoint: "http://bob.test/", skills: [{ id: "sea" }] }]
      const tools = [Weather.toolNamed("sky"), Weather.toolNamed("sky"), Weather.toolNamed("at_sea")]
      const [notice] = yield* notices(tools, { agents })
      const reason = "Another tool of the plan has its name"
      const missing = ["sky", "at_sea"].map((tool) => ({ tool, reason }))
      assert.deepStrictEqual(notice?.data, { server: "weather", tools: missing })
    })
  )

  it.effect("are told in a notice that does not grow with what the server says", () =>
    Effect.gen(function* () {
      const long = Array.from({ length: 1_000 }, (_, at) => Weather.toolNamed(`${at}${"x".repeat(5_000)}`))
      const inputSchema = { pattern: `(${"x".repeat(60_000)}` }
      const [notice] = yield* notices([{ ...Weather.toolNamed("odd"), inputSchema }, ...long])
      assert.match(notice?.message ?? "", /^Tools of the MCP server weather are missing: odd, .* and 873 others$/s)
      const text = JSON.stringify(notice)
      assert.include(text, "Its name does not have 1..256 characters")
      assert.match(text, /Its input schema cannot be used\. Expected regular expressions, got .*characters left out/)
      assert.isBelow(text.length, 100_000)
    })
  )
})
