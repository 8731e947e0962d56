import { all, type Instrument } from "@bowline/runtime/unstable/telemetry/Instrument"
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { nameOf } from "../../src/telemetry/PrometheusText.ts"
import { labelOf } from "./PromQl.ts"
import "@bowline/storage-sql/SqlStore"
import "../../src/Gateway.ts"
import "../../src/worker/Supervisor.ts"

const reference = readFileSync(join(import.meta.dirname, "../../../../docs/reference/metrics.md"), "utf8")

/** Another test file of this process may have made one of its own. */
const instruments = () => all().filter(({ name }) => !name.startsWith("test."))

const code = (text: string) => `\`${text}\``

const labels = (instrument: Instrument): string =>
  Object.entries(instrument.labels)
    .map(([name, values]) => `${code(name)}: ${typeof values === "string" ? values : values.map(code).join(", ")}`)
    .join("; ")

const row = (instrument: Instrument): string => {
  const { description, name, type, unit = "" } = instrument
  return `| ${code(name)} | ${code(nameOf(instrument))} | ${type} | ${unit} | ${labels(instrument)} | ${description} |`
}

it("the reference has every metric as the code defines it, and no other one", () => {
  const written = reference.split("\n").filter((line) => line.startsWith("| `"))
  assert.deepStrictEqual(written.toSorted(), instruments().map(row).toSorted())
})

it("no two metrics have the same name, also where Prometheus spells it", () => {
  const names = instruments().map(nameOf)
  assert.lengthOf(new Set(names), names.length)
  for (const instrument of instruments()) {
    assert.match(nameOf(instrument), /^[a-z][a-z0-9_]*$/)
    for (const label of Object.keys(instrument.labels)) assert.match(labelOf(label), /^[a-z][a-z0-9_]*$/)
  }
})
