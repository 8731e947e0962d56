import { McpClient } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { json, text, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { callTool, serverAt } from "./call.ts"

const memory = SdkMcpClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))

const Request = Schema.fromJsonString(Schema.Struct({ id: Schema.optionalKey(Schema.Json), method: Schema.String }))

const serverInfo = { name: "curious", version: "1.0.0" }
const cached = { resultType: "complete", ttlMs: 0, cacheScope: "private" }

/** How a server of each era asks its caller for something in the middle of a call. */
const eras = {
  legacy: {
    discover: undefined,
    call: {
      error: { code: -32_042, message: "Sign in", data: { elicitations: [{ url: "https://x.test/", mode: "url" }] } }
    }
  },
  modern: {
    discover: { ...cached, supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo },
    call: {
      result: {
        resultType: "input_required",
        inputRequests: {
          who: {
            method: "elicitation/create",
            params: { mode: "form", message: "Who are you?", requestedSchema: { type: "object", properties: {} } }
          }
        },
        requestState: "s"
      }
    }
  }
}

/** Remembers what clients said of what they can do. */
const hostOf =
  (era: keyof typeof eras, bodies: Array<string>): Host =>
  ({ body, method: verb }) => {
    const request = Schema.decodeOption(Request)(body)
    if (verb !== "POST" || request._tag === "None") return Effect.succeed(text(405, ""))
    const { id = null, method } = request.value
    bodies.push(body)
    const answer = (answered: object) => Effect.succeed(json(200, { jsonrpc: "2.0", id, ...answered }))
    const { call, discover } = eras[era]
    switch (method) {
      case "server/discover":
        return discover === undefined ? Effect.succeed(text(400, "")) : answer({ result: discover })
      case "initialize":
        return answer({ result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } })
      case "tools/list":
        return answer({ result: { ...cached, tools: [{ name: "forecast", inputSchema: { type: "object" } }] } })
      case "tools/call":
        return answer(call)
      default:
        return Effect.succeed(text(202, ""))
    }
  }

describe.each(["legacy", "modern"] as const)("a %s server that asks for input in a call", (era) => {
  it.effect("ends it as input-required, and was told that nobody answers such questions", () =>
    Effect.gen(function* () {
      const bodies: Array<string> = []
      const { url } = yield* (yield* Network).serve(hostOf(era, bodies))
      const connection = yield* (yield* McpClient).connect(serverAt(url), direct)
      assert.strictEqual((yield* callTool(connection, "forecast")).state, "input-required")
      const sent = bodies.join()
      assert.strictEqual(sent.match(/"tools\/call"/g)?.length, 1)
      assert.include(sent, "apabilities")
      assert.notMatch(sent, /"(elicitation|sampling|roots)"/)
    }).pipe(Effect.scoped, Effect.provide(memory))
  )
})
