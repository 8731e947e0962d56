import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Setting } from "../../src/setting/Setting.ts"
import { clientSettings, table } from "../../src/setting/Settings.ts"

const reference = readFileSync(join(import.meta.dirname, "../../../../docs/reference/configuration.md"), "utf8")

const code = (text: string | undefined) => (text === undefined ? "" : `\`${text}\``)

const row = ({ default: value, doc, path, unset, variable }: Setting): string =>
  `| ${code(variable)} | ${code(path?.join("."))} | ${doc} | ${unset ?? code(value)} |`

it("the reference has every setting as the table of settings says it", () => {
  const rows = [...Object.values(table), ...Object.values(clientSettings)].map(row)
  const written = reference.split("\n").filter((line) => /^\| (`[A-Z_]+`)? \|/.test(line))
  assert.deepStrictEqual(written, rows)
})
