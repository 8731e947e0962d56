import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { noPreset } from "../../src/config/Presets.ts"
import { check } from "../../src/plan/Admission.ts"

const rules = {
  allowsModel: () => true,
  allowsHost: () => true,
  allowsVariable: (name: string) => name === "ALLOWED",
  localTools: [],
  notAsCaller: () => undefined,
  notAtAccount: () => undefined
}
const docs = {
  terms: { name: "docs" },
  address: "stdio:docs",
  connect: () => Effect.die("A check connects to nothing")
}
const agent = (name: string, ...ids: ReadonlyArray<string>) => ({
  name,
  endpoint: `https://${name}.example/`,
  auth: { type: "none" as const },
  dialect: "auto" as const,
  skills: ids.map((id) => ({ id }))
})
const preset = { ...noPreset, name: "travel", agents: [agent("weather", "fore_cast")], servers: [docs] }
const decode = Schema.decodeUnknownResult(PlanRequest)
const server = (fields: object) => ({ name: "weather", url: "https://mcp.example/", ...fields })

describe("an MCP server of a request", () => {
  it("has a name of its own among agents and servers, and names allowed variables only", () => {
    const auth = { type: "bearer_env", env_var: "HOME" }
    const request = Result.getOrThrow(
      decode({
        question: "?",
        agents: [{ name: "bob", endpoint: "https://bob.example/" }],
        mcp_servers: [server({}), server({ auth }), server({ name: "bob" }), server({ name: "docs" })]
      })
    )
    assert.deepStrictEqual(check(request, { ...preset, agents: [] }, rules), [
      { path: ["mcp_servers", 1, "name"], message: "Expected another name than that of mcp_servers[0]" },
      {
        path: ["mcp_servers", 1, "auth", "env_var"],
        message: "Expected a variable that BOWLINE_ENV_ALLOW (server.env_allow in the file) names"
      },
      { path: ["mcp_servers", 2, "name"], message: "Expected another name than that of agents[0]" },
      {
        path: ["mcp_servers", 3, "name"],
        message: "Expected another name than that of docs, a server of the preset travel"
      }
    ])
  })

  it.each([
    ["a command", { command: "rm" }],
    ["a URL of another scheme", { url: "file:///etc/passwd" }],
    ["a header of the protocol", { headers: { "Mcp-Session-Id": "1" } }],
    ["a header that auth sets", { headers: { Authorization: "Bearer x" } }],
    ["a header with a line break", { headers: { "X-Key": "a\r\nb" } }],
    ["a pin that is no digest", { pinned_tools: { forecast: "md5:1" } }],
    ["an approval of another word", { approval: "sometimes" }]
  ])("is refused with %s", (_, fields) => {
    const body = { question: "?", mcp_servers: [server(fields)] }
    assert.isTrue(Result.isFailure(decode(body, { onExcessProperty: "error" })))
  })
})

describe("a request with a preset", () => {
  it("gives no agent, server or tool a name that the preset has, and is told both", () => {
    const request = Result.getOrThrow(
      decode({
        question: "?",
        agents: [agent("weather_fore", "cast"), agent("weather"), agent("docs")],
        mcp_servers: [server({})]
      })
    )
    assert.deepStrictEqual(check(request, preset, rules), [
      {
        path: ["agents", 0, "skills", 0, "id"],
        message:
          "skill cast of agent weather_fore and skill fore_cast of agent weather of the preset travel would both be the tool weather_fore_cast"
      },
      {
        path: ["agents", 1, "name"],
        message: "Expected another name than that of weather, an agent of the preset travel"
      },
      {
        path: ["agents", 2, "name"],
        message: "Expected another name than that of docs, a server of the preset travel"
      },
      { path: ["mcp_servers", 0, "name"], message: "Expected another name than that of agents[1]" }
    ])
  })

  it("has at most 2,000 tools with those of the preset", () => {
    const skills = (count: number) => Array.from({ length: count }, (_, index) => `${index}`)
    const agents = Array.from({ length: 32 }, (_, index) => agent(`a${index}`, ...skills(62)))
    const big = { ...preset, agents }
    const asks = (count: number) => {
      const request = Result.getOrThrow(decode({ question: "?", agents: [agent("c", ...skills(count))] }))
      return check(request, big, rules)
    }
    assert.deepStrictEqual(asks(16), [])
    assert.deepStrictEqual(asks(17), [{ path: ["agents"], message: "Expected at most 2000 tools, got 2001" }])
  })
})
