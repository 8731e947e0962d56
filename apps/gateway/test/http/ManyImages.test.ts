import { Network } from "@bowline/testing/http/Network"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "./RunningGateway.ts"

/** The servers of each wire, what their addresses end with, and what each image in a request begins with. */
const wires = {
  "openai-chat": { host: ChatHost, path: "/v1", imagesIn: '"image_url":{"url":"data:image/png;base64,' },
  "openai-responses": { host: ResponsesHost, path: "/v1", imagesIn: '"image_url":"data:image/png;base64,' },
  "anthropic-messages": { host: MessagesHost, path: "", imagesIn: '"media_type":"image/png","data":"' }
}

/** A picture of which no two are the same, of some 1,340 tokens. */
const imageOf = (number: number) => ({
  type: "file",
  data: Buffer.from(SampleFile.png(1_000, 1_000, number)).toString("base64"),
  media_type: "image/png",
  name: `${number}.png`
})

describe("the images of a long session", () => {
  for (const [wire, { host, imagesIn, path }] of Object.entries(wires)) {
    it.live(
      `are left out of a prompt that is too long, and shown again to a model that asks, on the wire ${wire}`,
      () =>
        Effect.gen(function* () {
          const script: Script = ({ messages, system }) => {
            const last = messages.at(-1)
            const text = last?.role === "user" ? last.text : ""
            const [, id] = /Show (file_[\w-]+)/.exec(text) ?? []
            if (id !== undefined) return [callTool("view_file", { file_id: id })]
            return [say(system.includes("planner") ? "A knot" : "They have sent 30 pictures of knots")]
          }
          const provider = yield* Effect.flatMap(Network, (network) => Effect.flatMap(host.make(script), network.serve))
          const folder = yield* folderOf({
            "gateway.json": JSON.stringify({
              providers: [{ name: "acme", wire, base_url: provider.url + path, api_keys: ["key"] }],
              models: { "acme/eyes": { input: ["text", "image"], context_window: 40_000 } }
            })
          })
          const { url } = yield* start([], {
            BOWLINE_CONFIG: join(folder, "gateway.json"),
            BOWLINE_MODEL: "acme/eyes"
          })
          const ask = Effect.fnUntraced(function* (question: unknown) {
            const { body } = yield* post(`${url}/plan`, { question, session_id: "knots" })
            assert.strictEqual(body["state"], "completed", JSON.stringify(body))
            return yield* Effect.map(provider.requests.all, (all) => all.at(-1)?.body ?? "")
          })
          const images = (from: number) => Array.from({ length: 15 }, (_, index) => imageOf(from + index))
          yield* ask(images(100))
          yield* ask(images(200))
          const asked = yield* ask("And now?")
          const [oldest, second] = ["100", "101"].map(
            (name) => new RegExp(`\\[image ${name}\\.png, 1000×1000, (file_[^\\]]+)\\]`).exec(asked)?.[1]
          )
          const sent = (text: string) => text.split(imagesIn).length - 1
          assert.isAbove(sent(asked), 5)
          assert.isBelow(sent(asked), 20)
          // Those that are left out are a line each. The system prompt lists all of them.
          const lines = asked.match(/(?<!- )\[image \d+\.png/g) ?? []
          assert.strictEqual(lines.length, 30 - sent(asked))
          assert.notInclude(lines, "[image 214.png")
          const seen = yield* ask(`Show ${oldest}`)
          // The next question makes the prompt longer: it may cost one more image.
          assert.isAtLeast(sent(seen), sent(asked))
          assert.isAbove(seen.lastIndexOf(imagesIn), seen.lastIndexOf("<result"))

          const { body } = yield* send(`${url}/sessions/knots/compact`, { method: "POST" })
          assert.deepInclude(body["compaction"], { summary: "They have sent 30 pictures of knots" })
          const summarised = yield* ask("And now?")
          // The newest turn stays, which has looked at one.
          assert.strictEqual(sent(summarised), 1)
          const again = yield* ask(`Show ${second}`)
          assert.strictEqual(sent(again), 2)
          assert.isAbove(again.lastIndexOf(imagesIn), again.lastIndexOf("<result"))
        }).pipe(Effect.provide(LoopbackNetwork.layer))
    )
  }
})
