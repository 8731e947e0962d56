import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { curl } from "../../src/plan/Request.ts"

/** The words that a shell makes of a command. */
const words = (command: string): ReadonlyArray<string> =>
  execFileSync("sh", ["-c", `curl() { for word; do printf '%s\\0' "$word"; done; }\n${command}`], {
    encoding: "utf8",
    env: { BOWLINE_API_KEY: "secret" }
  })
    .split("\0")
    .slice(0, -1)

const request = { question: `It's "quoted" $HOME \`id\` \\ \n ü!`, preferences: { max_steps: 2 } }

describe("curl", () => {
  it("asks the same in a shell, whatever the question has in it", () => {
    assert.deepStrictEqual(words(curl("http://127.0.0.1:4000", request, true)), [
      "-N",
      "http://127.0.0.1:4000/plan",
      "-H",
      "Authorization: Bearer secret",
      "-H",
      "Content-Type: application/json",
      "-d",
      JSON.stringify(request)
    ])
  })

  it("sends no key to a gateway that wants none", () => {
    assert.notInclude(curl("http://127.0.0.1:4000", request, false), "Authorization")
  })
})
