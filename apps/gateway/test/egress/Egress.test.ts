import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "../http/RunningGateway.ts"

const script: Script = ({ messages }) =>
  messages.some(({ role }) => role === "tool") ? [say("done")] : [callTool("bob_ask", { input: "?" })]

/** How the task of a peer on loopback ends, which a caller names, and how often anything reached it. */
const ended = Effect.fnUntraced(
  function* (environment: Readonly<Record<string, string>>, host: string) {
    const peer = yield* ScriptedPeer.serve({ acts: [completes()] })
    const { url } = yield* start(script, { BOWLINE_API_KEYS: "ann=key", ...environment })
    const endpoint = `${peer.url.replace("127.0.0.1", host)}/`
    const { text } = yield* post(
      `${url.replace("0.0.0.0", "127.0.0.1")}/plan`,
      { question: "?", agents: [{ name: "bob", endpoint, dialect: "a2a-0.3", skills: [{ id: "ask" }] }] },
      { authorization: "Bearer key", accept: "text/event-stream" }
    )
    const [, task] = /^event: task\.finished\ndata: (.+)$/m.exec(text) ?? []
    assert.match(text, /^event: done$/m)
    return {
      task: JSON.parse(task ?? "{}") as Readonly<Record<string, unknown>>,
      reached: (yield* peer.requests.all).length
    }
  },
  Effect.scoped,
  Effect.provide(LoopbackNetwork.layer)
)

const open = { BOWLINE_HOST: "0.0.0.0" }

describe("a peer that a caller names", () => {
  it.live("is reached on the gateway's own machine when only that machine can reach the gateway", () =>
    Effect.gen(function* () {
      const { task } = yield* ended({}, "127.0.0.1")
      assert.strictEqual(task["state"], "completed")
    })
  )

  it.live.each([
    [{ BOWLINE_EGRESS_DENY: "127.0.0.0/8" }, "127.0.0.1", "BOWLINE_EGRESS_DENY"],
    [{ BOWLINE_EGRESS_DENY: "localhost" }, "localhost", "BOWLINE_EGRESS_DENY"],
    [
      { BOWLINE_EGRESS_DENY: "*.example,127.0.0.1", BOWLINE_EGRESS_ALLOW: "127.0.0.1" },
      "127.0.0.1",
      "BOWLINE_EGRESS_DENY"
    ],
    [open, "127.0.0.1", "BOWLINE_EGRESS_ALLOW"],
    [open, "localhost", "BOWLINE_EGRESS_ALLOW"],
    [{ ...open, BOWLINE_EGRESS_ALLOW: "10.0.0.0/8,peer.example" }, "2130706433", "BOWLINE_EGRESS_ALLOW"]
  ] as const)(
    "is refused at once when %j and it is at %s, with the setting that allows it",
    ([environment, host, variable]) =>
      Effect.gen(function* () {
        const { reached, task } = yield* ended(environment, host)
        const error = task["error"] as Readonly<Record<string, string>>
        assert.deepStrictEqual([task["state"], error["code"]], ["failed", "egress_denied"])
        assert.include(error["message"], variable)
        assert.strictEqual(reached, 0)
      })
  )

  it.live.each([
    [{ ...open, BOWLINE_EGRESS_ALLOW: "127.0.0.1" }, "127.0.0.1"],
    [{ ...open, BOWLINE_EGRESS_ALLOW: "10.0.0.0/8, LOCALHOST" }, "localhost"]
  ] as const)("is connected to when %j and it is at %s", ([environment, host]) =>
    Effect.gen(function* () {
      const { task } = yield* ended(environment, host)
      assert.strictEqual(task["state"], "completed")
    })
  )
})
