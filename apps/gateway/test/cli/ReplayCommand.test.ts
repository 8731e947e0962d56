import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { gunzipSync, gzipSync } from "node:zlib"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { outputOf, outputOfProcess } from "./Bowline.ts"

const decodeFile = Schema.decodeUnknownSync(Schema.Struct({ file_id: Schema.String, sha256: Schema.String }))

describe("bowline export, fork and replay", () => {
  it.live("write the record of a plan, and run it again: the same, or the first difference", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("nothing_there", {})] : [say("A bow"), say("line.")]
      )
      const content = "A bowline is a knot."
      const uploading = new FormData()
      uploading.set("file", new Blob([content], { type: "text/plain" }), "knot.txt")
      const uploaded = yield* Effect.promise(() => fetch(`${url}/files`, { method: "POST", body: uploading }))
      const { file_id, sha256 } = decodeFile(yield* Effect.promise(() => uploaded.json()))
      const question = [
        { type: "text", text: "Which knot?" },
        { type: "file", file_id }
      ]
      const { body } = yield* post(`${url}/plan`, { question })
      const plan = String(body["plan_id"])
      const file = join(yield* folderOf({}), "plan.bowline")
      const environment = { BOWLINE_URL: url }
      const toFile = { under: ["bash", "-c", `exec "$0" "$@" > ${file}`] }
      const run = (args: ReadonlyArray<string>) => outputOf(args, environment)
      const exportTo = (...args: ReadonlyArray<string>) => outputOfProcess(["export", ...args], environment, toFile)
      assert.strictEqual((yield* exportTo(plan, "--files")).code, 0)
      const last = gunzipSync(readFileSync(file)).toString().trimEnd().split("\n").at(-1) ?? ""
      const data = Buffer.from(content).toString("base64")
      assert.deepInclude(JSON.parse(last), { type: "file", file_id, sha256, data })
      for (const replay of [outputOfProcess(["replay", file], environment), run(["replay", plan])]) {
        const { code, stderr, stdout } = yield* replay
        assert.deepStrictEqual([code, stdout, stderr], [0, `${plan}: same\n`, ""])
      }
      yield* Effect.promise(() => fetch(`${url}/files/${file_id}`, { method: "DELETE" }))
      const without = yield* exportTo(plan, "--files")
      assert.strictEqual(without.code, 0)
      assert.include(without.stderr, `${file_id}: there is no such file any more`)
      const fork = ["fork", plan, "--step", "1", "--question", "Which bend?", "--json"]
      const forked = yield* outputOfProcess(fork, environment)
      assert.include(forked.stdout, '"text":"A bowline."')
      const { text: ofFork } = yield* send(`${url}/plans?limit=1`)
      assert.include(ofFork, '"question_preview":"Which bend?"')
      yield* post(`${url}/plans/${plan}/feedback`, { score: -1, labels: ["x"] })
      assert.strictEqual((yield* exportTo("--where", "feedback=negative&label=x")).code, 0)
      const text = gunzipSync(readFileSync(file)).toString()
      assert.include(text, plan)
      writeFileSync(file, gzipSync(text.replaceAll("line.", "tie.")))
      assert.strictEqual((yield* run(["replay", file])).code, 0)
      writeFileSync(file, gzipSync(text.replaceAll('"text":"A bowline."', '"text":"A tie."')))
      const other = yield* run(["replay", file])
      assert.strictEqual(other.code, 1)
      assert.match(other.stdout, /: step 2: final differs\n {2}recorded: .*A tie\..*\n {2}came: .*A bowline\./)
      // Neither what is no record nor half of one counts as the same, and its line is named.
      for (const [content, problem] of [
        ["", "Expected a line of the type plan"],
        ["{}", "Expected a line of the type plan"],
        [text.slice(0, text.lastIndexOf("{") + 9), "line \\d+: Expected JSON"],
        [gzipSync(text).subarray(0, 300), "unexpected end of file"],
        [text.replace(/"plan_id":"[^"]*",/, ""), 'line 1: Missing key at \\["plan"\\]\\["plan_id"\\]'],
        [text.replace(/"event":"done",(.*)"data":\{\}/, '"event":"done",$1"data":null'), "line \\d+: Expected object"]
      ] as const) {
        writeFileSync(file, content)
        const { code, stderr, stdout } = yield* run(["replay", file])
        assert.deepStrictEqual([code, stdout], [1, ""])
        assert.match(stderr, new RegExp(`^${file} is no record of a plan: ${problem}.*\n$`))
      }
      const folder = yield* run(["replay", dirname(file)])
      assert.deepStrictEqual([folder.code, folder.stderr.split("\n").length], [1, 2])
      assert.include(folder.stderr, `Cannot read ${dirname(file)}: EISDIR`)
      assert.strictEqual((yield* run(["replay", plan, "--until", "0"])).code, 64)
      assert.strictEqual((yield* run(["export"])).code, 64)
      const wrong = yield* run(["export", "--where", "knot=1"])
      assert.deepStrictEqual([wrong.code, wrong.stderr], [1, "invalid_request: knot: Unknown field\n"])
      const none = yield* run(["export", "--where", "label=none"])
      assert.deepStrictEqual([none.code, none.stdout], [0, ""])
      assert.include(none.stderr, "No plan is found by label=none")
      assert.strictEqual((yield* run(["replay", "none"])).code, 1)
    })
  )
})
