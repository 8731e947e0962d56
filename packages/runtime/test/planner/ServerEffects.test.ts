import { Auth, PeerError, type PeerErrorReason, Unreachable } from "@bowline/domain/peer/PeerError"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { McpClient, type McpConnection, type McpResult } from "../../src/remote/McpClient.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import * as Weather from "./Weather.ts"

const checks = Layer.succeed(SchemaChecks, inPlace)
const byArguments = { key: "arguments", scope: "caller" } as const

const ask = Effect.fnUntraced(function* (body: object) {
  return yield* readAll((yield* post({ question: "?", ...body })).frames)
})

type Ended = ReturnType<McpConnection["call"]>

const said = (state: McpResult["state"]): Ended => Effect.succeed({ state, text: state, structured: undefined })
const kept = (reason: PeerErrorReason, more: { readonly isTaken?: boolean } = {}): Ended =>
  Effect.fail(new PeerError({ reason, ...more }))
const refused = (more: { readonly isTaken?: boolean } = {}): Ended =>
  kept(new Unreachable({ message: "The connection failed", code: "ECONNREFUSED" }), more)

describe("a call with an effect", () => {
  it.effect.each([
    { name: "was refused", end: refused(), next: "completed" },
    { name: "lacked a token", end: kept(new Auth({ message: "BANK_TOKEN is not set" })), next: "completed" },
    { name: "said that it failed", end: said("failed"), next: "completed" },
    { name: "got a 401", end: kept(new Auth({ message: "The server answered 401", status: 401 })), next: "rejected" },
    { name: "was taken, and its server refused a question", end: refused({ isTaken: true }), next: "rejected" },
    { name: "was cancelled by its server", end: said("canceled"), next: "rejected" },
    { name: "was asked something", end: said("input-required"), next: "rejected" }
  ])("of an MCP server is $next where the one before $name", ({ end, next }) => {
    const ends = [end, said("completed")]
    const call: McpConnection["call"] = () =>
      Effect.suspend(() => ends.shift() ?? assert.fail("there was no third call"))
    const connection: McpConnection = {
      tools: Effect.succeed([Weather.toolNamed("pay")]),
      hasChanged: Effect.succeed(false),
      call
    }
    const mcp = Layer.succeed(McpClient, { connect: () => Effect.succeed(connection), servers: Effect.succeed([]) })
    const script = [[callTool("weather_pay", { input: "7" })], [callTool("weather_pay", { input: "7" })], [say("done")]]
    const body = {
      ...Weather.weather({ effects: { pay: byArguments } }),
      agents: [],
      preferences: { approval: "never" }
    }
    return Effect.gen(function* () {
      const finished = all(yield* ask(body), "task.finished")
      assert.strictEqual(finished[1]?.state, next)
      assert.strictEqual(finished[1]?.error?.code, next === "rejected" ? "effect_unknown" : undefined)
    }).pipe(Effect.provide(layer({ script, mcp }).pipe(Layer.provide(checks))), Effect.scoped)
  })
})
