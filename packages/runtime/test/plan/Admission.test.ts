import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { check } from "../../src/plan/Admission.ts"

const rules = {
  allowsModel: () => true,
  allowsHost: () => true,
  allowsVariable: (name: string) => name === "ALLOWED",
  localTools: []
}
const decode = Schema.decodeUnknownResult(PlanRequest)
const server = (fields: object) => ({ name: "weather", url: "https://mcp.example/", ...fields })

describe("an MCP server of a request", () => {
  it("has a name of its own among agents and servers, and names allowed variables only", () => {
    const auth = { type: "bearer_env", env_var: "HOME" }
    const request = Result.getOrThrow(
      decode({
        question: "?",
        agents: [{ name: "bob", endpoint: "https://bob.example/" }],
        mcp_servers: [server({}), server({ auth }), server({ name: "bob" })]
      })
    )
    assert.deepStrictEqual(check(request, rules), [
      { path: ["mcp_servers", 1, "name"], message: "Expected another name than that of mcp_servers[0]" },
      {
        path: ["mcp_servers", 1, "auth", "env_var"],
        message: "Expected a variable that BOWLINE_ENV_ALLOW (server.env_allow in the file) names"
      },
      { path: ["mcp_servers", 2, "name"], message: "Expected another name than that of agents[0]" }
    ])
  })

  it.each([
    ["a command", { command: "rm" }],
    ["a URL of another scheme", { url: "file:///etc/passwd" }],
    ["a header of the protocol", { headers: { "Mcp-Session-Id": "1" } }],
    ["a header that auth sets", { headers: { Authorization: "Bearer x" } }],
    ["a header with a line break", { headers: { "X-Key": "a\r\nb" } }],
    ["a pin that is no digest", { pinned_tools: { forecast: "md5:1" } }],
    ["an approval, which no version has yet", { approval: "always" }]
  ])("is refused with %s", (_, fields) => {
    const body = { question: "?", mcp_servers: [server(fields)] }
    assert.isTrue(Result.isFailure(decode(body, { onExcessProperty: "error" })))
  })
})
