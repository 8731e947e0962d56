import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Setting } from "../../../src/config/setting/Setting.ts"
import { SchemaAST } from "effect"
import { Lists } from "../../../src/config/file/FileSchema.ts"
import { clientSettings, table } from "../../../src/config/setting/Settings.ts"

const page = (name: string) =>
  readFileSync(join(import.meta.dirname, `../../../../../docs/reference/${name}.md`), "utf8")

const reference = page("configuration")

const code = (text: string | undefined) => (text === undefined ? "" : `\`${text}\``)

const row = ({ default: value, doc, path, unset, variable }: Setting): string =>
  `| ${code(variable)} | ${code(path?.join("."))} | ${doc} | ${unset ?? code(value)} |`

it("the reference has every setting as the table of settings says it", () => {
  const rows = [...Object.values(table), ...Object.values(clientSettings)].map(row)
  const written = reference.split("\n").filter((line) => /^\| (`[A-Z_]+`)? \|/.test(line))
  assert.deepStrictEqual(written, rows)
})

/** The names of all fields of a schema, and of the schemas within it. */
const fieldsOf = (ast: SchemaAST.AST): ReadonlyArray<string> => {
  if (SchemaAST.isArrays(ast)) return [...ast.elements, ...ast.rest].flatMap(fieldsOf)
  if (SchemaAST.isUnion(ast)) return ast.types.flatMap(fieldsOf)
  if (!SchemaAST.isObjects(ast)) return []
  return [
    ...ast.propertySignatures.flatMap(({ name, type }) => [String(name), ...fieldsOf(type)]),
    ...ast.indexSignatures.flatMap(({ type }) => fieldsOf(type))
  ]
}

it("the reference has every key that the file may have beside settings", () => {
  const fields = new Set(fieldsOf(SchemaAST.toEncoded(Lists.ast)))
  assert.includeMembers(
    [...fields],
    ["providers", "timeouts", "first_token", "cached", "hosts", "tls", "command", "deny"]
  )
  // An MCP server has the fields and the credentials that it has in a request.
  const code = [reference, page("peers"), page("mcp"), page("http"), page("identity")]
    .flatMap((text) => text.match(/`[^`\n]+`/g) ?? [])
    .join("\n")
  const missing = [...fields].filter((name) => !new RegExp(`\\b${name}\\b`).test(code))
  assert.deepStrictEqual(missing, [])
})
