import { assert, describe, it } from "@effect/vitest"
import type { McpCall, McpQuestion } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { Deferred, Effect, Fiber } from "effect"
import { fileURLToPath } from "node:url"
import { callTool } from "../server/call.ts"
import { connect, quiet } from "./Commands.ts"

const sdk2 = fileURLToPath(new URL("Sdk2.ts", import.meta.url))
const everything = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"))

describe("a real server over stdio", () => {
  it.live("of the SDK 2.x is spoken to in the newest revision, and told when a call is interrupted", () =>
    Effect.gen(function* () {
      const { connection, statuses } = yield* connect([sdk2])
      assert.strictEqual((yield* callTool(connection, "forecast")).text, "clear in Oslo")
      assert.deepStrictEqual(yield* statuses, [
        { url: "stdio:weather", revision: "2026-07-28", error: null, error_at: null }
      ])
      const begun = yield* Deferred.make<void>()
      const onProgress = () => Effect.asVoid(Deferred.succeed(begun, undefined))
      const waiting = yield* Effect.forkChild(callTool(connection, "wait", { city: "Oslo" }, onProgress))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(waiting)
      // It ends when its call is aborted.
      yield* Effect.repeat(statuses, { until: ([status]) => status?.error?.endsWith("with code 9") ?? false })
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("with all features of the protocol is called, also with a tool that needs a task", () =>
    Effect.gen(function* () {
      const { connection, statuses } = yield* connect([everything, "stdio"])
      assert.strictEqual((yield* callTool(connection, "echo", { message: "hi" })).text, "Echo: hi")
      const research = yield* callTool(connection, "simulate-research-query", { topic: "knots" })
      assert.match(research.text, /^# Research Report: knots/)
      assert.strictEqual((yield* statuses)[0]?.revision, "2025-11-25")
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("of the newest revision asks each plan by itself, in the process that all of them share", () =>
    Effect.gen(function* () {
      const { connection } = yield* connect([sdk2], {}, true)
      const answer = ({ schema }: McpQuestion) =>
        Effect.succeed({ action: "accept", ...(schema !== null && { content: { days: 2 } }) } as const)
      const { text } = yield* callTool(connection, "trip", { city: "Oslo" }, () => Effect.void, { answer })
      assert.deepStrictEqual(JSON.parse(text), {
        days: { action: "accept", content: { days: 2 } },
        page: { action: "accept" }
      })
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("of a revision with a handshake asks a plan that answers, in a process of its own, also in a task", () =>
    Effect.gen(function* () {
      const { connect: connectMore, connection } = yield* connect([everything, "stdio"], {}, true)
      const other = yield* connectMore(direct)
      const named = ({ name }: { readonly name: string }) => name === "trigger-elicitation-request"
      // The server lists it only where somebody answers.
      assert.isTrue((yield* connection.tools).some(named))
      assert.isFalse((yield* other.tools).some(named))
      const asked: Array<McpQuestion> = []
      const answer = (question: McpQuestion) => {
        asked.push(question)
        return Effect.succeed({ action: "accept", content: { interpretation: "technical", name: "Ann" } } as const)
      }
      const call = (name: string, input: McpCall["input"]) =>
        callTool(connection, name, input, () => Effect.void, { answer })
      assert.include((yield* call("trigger-elicitation-request", {})).text, "Ann")
      const research = yield* call("simulate-research-query", { topic: "knots", ambiguous: true })
      assert.match(research.text, /^# Research Report: knots/)
      assert.lengthOf(asked, 2)
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )
})
