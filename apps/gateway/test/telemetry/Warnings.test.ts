import { names } from "@bowline/runtime/unstable/telemetry/Warnings"
import { error } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { post, start } from "../http/RunningGateway.ts"
import { scrape } from "./Scrape.ts"

const root = join(import.meta.dirname, "../../../..")
const read = (path: string) => readFileSync(join(root, path), "utf8")

const sources = globSync("{packages,apps/gateway}/**/src/**/*.ts", { cwd: root, exclude: ["packages/testing/**"] })
  .filter((path) => !path.includes("node_modules"))
  .map(read)
  .join("\n")

/** What is logged there at `warn` and above, as it is written. */
const logged = [
  ...sources.matchAll(/\blog(?:Warning|Error|Fatal)\(\s*([^\s,)]+)/g),
  ...sources.matchAll(/\blog: "(?:Warn|Error|Fatal)"(?:, message: ([^\s,}]+))?/g)
].map(([line, name = line]) => name)

describe("a line of the log at warn and above", () => {
  it("has a name that is counted", () => {
    assert.isAbove(logged.length, 40)
    const written = Array.from(new Set(logged)).toSorted()
    assert.deepStrictEqual(written, names.map((name) => `"${name}"`).toSorted())
  })

  it("is on a page of the operations", () => {
    const table = read("docs/operations/README.md")
      .split("\n")
      .filter((line) => line.startsWith("| "))
      .join("\n")
    assert.deepStrictEqual(
      names.filter((name) => !table.includes(`\`${name}\``)),
      []
    )
  })

  it.live("is counted, also where nobody wants to read it", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(500)]], { LOG_LEVEL: "none", BOWLINE_MAX_RETRIES: "0" })
      const warnings = (warning: string) =>
        Effect.map(scrape(url), ({ value }) => value("bowline_warnings_total", { warning }))
      assert.strictEqual(yield* warnings("plan_failed"), 0)
      yield* post(`${url}/plan`, { question: "?" })
      assert.strictEqual(yield* warnings("plan_failed"), 1)
      assert.strictEqual(yield* warnings("provider_retries_exhausted"), 1)
      assert.strictEqual(yield* warnings("other"), 0)
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})
