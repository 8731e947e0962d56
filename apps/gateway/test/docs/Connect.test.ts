import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { folderOf } from "../file/ConfigFolder.ts"
import { post, start } from "../http/RunningGateway.ts"

const app = join(import.meta.dirname, "../..")
const page = readFileSync(join(app, "../../docs/connect.md"), "utf8")

/** The page's programs, under their headings. */
const programs = page
  .split(/^## /m)
  .flatMap((section) =>
    Array.from(
      section.matchAll(/^```ts\n([^]+?)^```$/gm),
      ([, code = ""]) => [section.split("\n")[0] ?? "", code] as const
    )
  )

/** The workspace has two versions of one package, each under a name of its own. */
const installed = (code: string) => code.replaceAll('"@a2a-js/sdk', '"a2a-sdk-1')

/** Runs a program as if it stood in the folder of the app, whose tests have the clients. Gives what it writes. */
const run = (code: string) =>
  Effect.promise(async (signal) => {
    const options = { cwd: app, env: {}, signal }
    const args = ["--input-type=module-typescript", "--eval", installed(code)]
    const program = promisify(execFile)(process.execPath, args, options)
    return (await program).stdout
  })

describe("the programs of docs/connect.md", () => {
  it("are there", () => {
    assert.deepStrictEqual(
      programs.map(([heading]) => heading),
      ["openai-node", "AI SDK", "AG-UI", "LangChain", "OpenAI Agents SDK", "@a2a-js/sdk"]
    )
  })

  it.live.each(programs)("get an answer: %s", ([, code]) =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("It will "), say("rain.")]])
      const here = code.replaceAll("http://127.0.0.1:3774", url)
      assert.include(here, url)
      assert.strictEqual(yield* run(here), "It will rain.")
    })
  )
})

it.live("the settings of another Bowline in docs/connect.md have it ask this one, with the key of a caller", () =>
  Effect.gen(function* () {
    const rains: Script = (asked) => [say(question(asked) === "Will it rain?" ? "It will rain." : "What?")]
    const inner = yield* start(rains, { BOWLINE_API_KEYS: "outer=<key>" })
    const [, settings = ""] = /^## Another Bowline$[^]*?^```json\n([^]+?)^```$/m.exec(page) ?? []
    assert.include(settings, "http://127.0.0.1:3774")
    const folder = yield* folderOf({ "gateway.json": settings.replaceAll("http://127.0.0.1:3774", inner.url) })
    const environment = { BOWLINE_CONFIG: join(folder, "gateway.json"), INNER_KEY: "<key>" }
    const script = [[callTool("inner_plan", { input: "Will it rain?" })], [say("It will.")]]
    const { provider, url } = yield* start(script, environment)
    assert.deepNestedInclude((yield* post(`${url}/plan`, { question: "?" })).body, { "final.text": "It will." })
    assert.include((yield* provider.requests.all).at(-1)?.body ?? "", "It will rain.")
  })
)
