import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { start } from "../http/RunningGateway.ts"

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

/** Runs a program as if it stood in the folder of the app, whose tests have the clients. Gives what it writes. */
const run = (code: string) =>
  Effect.promise(async (signal) => {
    const options = { cwd: app, env: {}, signal }
    const program = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code], options)
    return (await program).stdout
  })

describe("the programs of docs/connect.md", () => {
  it("are there", () => {
    assert.deepStrictEqual(
      programs.map(([heading]) => heading),
      ["openai-node", "AI SDK", "AG-UI", "LangChain", "OpenAI Agents SDK"]
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
