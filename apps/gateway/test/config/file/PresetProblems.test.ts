import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { problems } from "./ConfigFolder.ts"

const agent = { name: "rigger", endpoint: "https://rigger.example/" }
const found = (file: object) => Effect.scoped(problems("bad.json", JSON.stringify(file)))

describe("presets of a configuration file", () => {
  it.effect("have names that fit models, tools and URLs, and none is the file's own", () =>
    Effect.gen(function* () {
      const name = "Expected a name of 1..64 characters of a-z 0-9 _ -, the first one a letter or a digit"
      assert.deepStrictEqual(yield* found({ presets: { Knots: {}, "a b": {}, default: {}, "a-1_b": {} } }), [
        `bad.json presets.Knots: ${name}`,
        `bad.json presets["a b"]: ${name}`,
        "bad.json presets.default: Expected another name: default is the agents and mcp_servers of the file itself"
      ])
    })
  )

  it.effect("are checked as requests are, and each mistake is reported with its place", () =>
    Effect.gen(function* () {
      const variable = { type: "bearer_env", env_var: "NONE" }
      const skills = [{ id: "ask_it" }, { id: "c", input_schema: { type: "nothing" } }]
      const twin = { ...agent, name: "rigger_ask", skills: [{ id: "it" }] }
      const knots = {
        agents: [{ ...agent, auth: variable, skills }, agent, twin],
        mcp_servers: [{ name: "rigger", command: "x" }, { name: "files" }],
        model: "openai/x",
        preferences: { model: "openai/y" }
      }
      assert.deepStrictEqual(yield* found({ agents: [agent, agent], presets: { knots } }), [
        "bad.json agents[1].name: Expected another name than that of agents[0]",
        "bad.json presets.knots.agents[1].name: Expected another name than that of agents[0]",
        "bad.json presets.knots.agents[2].skills[0].id: skill it of agent rigger_ask and skill ask_it of agent rigger would both be the tool rigger_ask_it",
        "bad.json presets.knots.agents[0].auth.env_var: The variable NONE is not set",
        "bad.json presets.knots.mcp_servers[1]: Expected either a url or a command",
        "bad.json presets.knots.mcp_servers[0].name: Expected another name than that of an agent",
        "bad.json presets.knots.model: Expected either model or preferences.model"
      ])
    })
  )

  it.effect("have the fields of requests, with their limits, and no others", () =>
    Effect.gen(function* () {
      const knots = {
        description: " ",
        instructions: "",
        preferences: { max_steps: 0, max_stepz: 1 },
        agents: [{ ...agent, endpoint: "ftp://rigger.example/", token: "planted-secret" }],
        permissions: { presets: { allow: ["*"] }, tools: { allow: ["!x"] } },
        planted: 1
      }
      const lines = yield* found({ presets: { knots } })
      assert.sameMembers(
        lines.map((line) => line.split(": ")[0]),
        [
          "bad.json presets.knots.planted",
          "bad.json presets.knots.description",
          "bad.json presets.knots.instructions",
          "bad.json presets.knots.preferences.max_stepz",
          "bad.json presets.knots.preferences.max_steps",
          "bad.json presets.knots.agents[0].token",
          "bad.json presets.knots.agents[0].endpoint",
          "bad.json presets.knots.permissions.presets",
          "bad.json presets.knots.permissions.tools.allow[0]"
        ]
      )
      assert.notInclude(lines.join(), "planted-secret")
    })
  )

  it.effect("name models that a provider offers, and are themselves named right", () =>
    Effect.gen(function* () {
      const presets = {
        a: { model: "gpt" },
        b: { preferences: { model: "local/x" } },
        c: { model: "openai/anything" }
      }
      const permissions = { anonymous: { presets: { allow: ["a", "z*"], deny: ["default", "B"] } } }
      const expected = "Expected models of a provider that is configured: openai"
      const glob = "Expected a glob that matches a preset: default, a, b, c"
      assert.deepStrictEqual(yield* found({ presets, permissions }), [
        `bad.json presets.a.model: ${expected}`,
        `bad.json presets.b.preferences.model: ${expected}`,
        `bad.json permissions.anonymous.presets.allow[1]: ${glob}`,
        `bad.json permissions.anonymous.presets.deny[1]: ${glob}`
      ])
    })
  )
})
