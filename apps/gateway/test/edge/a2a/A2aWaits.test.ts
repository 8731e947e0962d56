import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { becomes, completes, data, text } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start } from "../../http/RunningGateway.ts"
import { clients, readOut } from "./Clients.ts"

const pick = {
  name: "pick",
  input_schema: { type: "object" },
  output_schema: { type: "object", properties: { color: { type: "string" } }, required: ["color"] }
}
const tools = { bowline: { tools: [pick, { ...pick, name: "choose" }] } }

/** Makes these calls at first, in each plan, and says their results. A text of the user may stand behind them. */
const calls =
  (...names: ReadonlyArray<string>): Script =>
  ({ messages }) => {
    const said = JSON.stringify(messages)
    return /red|Booked/.test(said) ? [say(said)] : names.map((name) => callTool(name, { among: 3 }))
  }

const idsIn = (said: string) => Array.from(said.matchAll(/"task_id":"([^"]+)"/g), ([, id]) => id ?? "")

const inboxOf = (url: string, plan: string) =>
  Effect.promise(async () => (await fetch(`${url}/plans/${plan}/inbox`)).text())

describe.each(Object.entries(clients))("a plan of the client of A2A %s", (_, connect) => {
  it.live("waits for the results of the client's tools, and goes on with all of them", () =>
    Effect.gen(function* () {
      const { url } = yield* start(calls("pick", "choose"))
      const client = yield* Effect.promise(() => connect(url))
      const waiting = yield* Effect.promise(() => client.send({ text: "Hi", metadata: tools }))
      assert.strictEqual(waiting.state, "input-required")
      const ids = idsIn(waiting.said)
      assert.lengthOf(ids, 2)
      assert.match(waiting.said, /"kind":"result"/)
      assert.deepInclude(yield* Effect.promise(() => client.get(waiting.id)), { state: "input-required" })
      for (const data of [
        { task_id: ids[0], content: "red" },
        { taskId: ids[0], content: { color: "red" } }
      ]) {
        const refused = yield* Effect.promise(() =>
          client.send({ data, taskId: waiting.id }).then(
            () => false,
            () => true
          )
        )
        assert.isTrue(refused)
      }
      const first = { task_id: ids[0], content: { color: "red" } }
      const half = yield* Effect.promise(() => client.send({ data: first, taskId: waiting.id }))
      assert.strictEqual(half.state, "input-required")
      assert.deepStrictEqual(idsIn(half.said), [ids[1]])
      const rest = { task_id: ids[1], content: { color: "blue" } }
      const task = yield* Effect.promise(() => client.send({ data: rest, taskId: waiting.id }))
      assert.deepInclude(task, { id: waiting.id, state: "completed" })
      assert.match(task.answer, /red[^]*blue/)
    })
  )

  it.live("takes a text as one while it waits for a result", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(calls("pick"))
      const client = yield* Effect.promise(() => connect(url))
      const waiting = yield* Effect.promise(() => client.send({ text: "Hi", metadata: tools }))
      const heard = yield* Effect.promise(() => client.send({ text: "Not pink", taskId: waiting.id }))
      assert.deepInclude(heard, { id: waiting.id, state: "input-required" })
      const [id] = idsIn(waiting.said)
      const result = { task_id: id, content: { color: "red" } }
      const file = {
        bytes: Buffer.from("left over right").toString("base64"),
        mediaType: "text/plain",
        name: "knot.txt"
      }
      const events = yield* readOut(client.stream({ text: "As you see", file, data: result, taskId: waiting.id }))
      assert.deepInclude(events.at(-1), { kind: "status", state: "completed" })
      const told = yield* Effect.map(provider.requests.all, (all) => all.at(-1)?.body ?? "")
      assert.match(told, /As you see[^]*\[file [^]*left over right/)
      const inbox = yield* inboxOf(url, waiting.id)
      assert.match(inbox, /("type":"text"[^}]*"state":"taken"[^]*){2}"type":"result"[^}]*"state":"taken"/)
    })
  )

  it.live("passes on what a peer asks, and its answers, as text and as data", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({
        acts: (sent) => {
          if (!sent.continues) return [becomes("input-required", "From where?")]
          const said = JSON.stringify(sent)
          return said.includes("harbour")
            ? [becomes("input-required", [text("Which sails?"), data({ sails: ["jib"] })])]
            : [completes("Booked")]
        }
      })
      const { url } = yield* start(calls("bob_ask"))
      const client = yield* Effect.promise(() => connect(url))
      const skills = [{ id: "ask", input_schema: { type: "object" } }]
      const bob = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills }
      const metadata = { bowline: { agents: [bob], preferences: { on_input_required: "wait" } } }
      const first = yield* Effect.promise(() => client.send({ text: "Hi", metadata }))
      assert.strictEqual(first.state, "input-required")
      assert.match(first.said, /From where\?[^]*"kind":"answer"/)
      const second = yield* Effect.promise(() => client.send({ text: "The harbour", taskId: first.id }))
      assert.strictEqual(second.state, "input-required")
      assert.match(second.said, /Which sails\?[^]*"sails":\["jib"\]/)
      const [id] = idsIn(second.said)
      const reply = { task_id: id, data: { sails: "jib" } }
      const task = yield* Effect.promise(() => client.send({ data: reply, taskId: first.id }))
      assert.deepInclude(task, { id: first.id, state: "completed" })
      assert.match(task.answer, /Booked/)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
