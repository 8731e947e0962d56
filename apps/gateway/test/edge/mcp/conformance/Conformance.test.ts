import { png } from "@bowline/testing/unstable/file/SampleFile"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, fails, file, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { folderOf } from "../../../config/file/ConfigFolder.ts"
import { start } from "../../../http/RunningGateway.ts"

const kit = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"))
const expected = fileURLToPath(new URL("expected-failures.yaml", import.meta.url))

/** Runs the kit: its exit code, and what it has printed. */
const run = (...args: ReadonlyArray<string>) =>
  Effect.callback<{ readonly code: number; readonly output: string }>((resume) => {
    const child = execFile(process.execPath, [kit, ...args], (error, stdout, stderr) => {
      resume(Effect.succeed({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr }))
    })
    return Effect.sync(() => child.kill())
  })

const anything = { type: "object" }

/** What the kit looks for in the schema of a tool. In the file of the configuration `$$` is a dollar. */
const keywords = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { $anchor: "address", type: "object", properties: { city: { type: "string" } } } },
  properties: { address: { $ref: "#/$$defs/address" }, mail: { type: "string" }, phone: { type: "string" } },
  allOf: [{ anyOf: [{ required: ["mail"] }, { required: ["phone"] }] }],
  if: { required: ["address"] },
  then: { required: ["mail"] },
  else: { required: ["phone"] },
  additionalProperties: false
}

/** An agent whose one skill is the tool `<name>_<id>`. */
const agentWith = Effect.fnUntraced(function* (
  name: string,
  id: string,
  acts: ScriptedPeer.PeerScript["acts"],
  input_schema: object = anything
) {
  const { url } = yield* ScriptedPeer.serve({ acts })
  return { name, endpoint: `${url}/`, dialect: "a2a-0.3", skills: [{ id, description: "For the kit", input_schema }] }
})

/** The kit calls tools and reads prompts of these names. */
const settings = Effect.gen(function* () {
  const image = { bytes: Buffer.from(png(2, 3)).toString("base64"), mimeType: "image/png", name: "knot.png" }
  const agents = [
    yield* agentWith("test", "simple_text", [produces("A simple text."), completes()]),
    yield* agentWith("test_error", "handling", [fails("It fails.")]),
    yield* agentWith("test_image", "content", [produces([file(image)]), completes()]),
    yield* agentWith("json", "schema_2020_12_tool", [completes("ok")], keywords)
  ]
  const recipe = "---\nname: test_simple_prompt\ndescription: For the kit\n---\nTie a knot.\n"
  return {
    BOWLINE_CONFIG: join(yield* folderOf({ "gateway.json": JSON.stringify({ agents }) }), "gateway.json"),
    BOWLINE_RECIPES_DIR: yield* folderOf({ "test_simple_prompt.md": recipe })
  }
})

it.live.each(["2026-07-28", "2025-11-25"])(
  "the public conformance kit finds nothing but what is expected: %s",
  (revision) =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], yield* settings)
      const found = yield* run(
        "server",
        "--url",
        `${url}/mcp`,
        "--requirements",
        revision,
        "--expected-failures",
        expected
      )
      assert.strictEqual(found.code, 0, found.output.split("=== SUMMARY ===").at(-1))
    }).pipe(Effect.provide(LoopbackNetwork.layer))
)
