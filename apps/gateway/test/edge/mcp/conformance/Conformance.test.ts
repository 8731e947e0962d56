import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
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

it.live.each(["2026-07-28", "2025-11-25"])(
  "the public conformance kit finds nothing but what is expected: %s",
  (revision) =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
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
    })
)
