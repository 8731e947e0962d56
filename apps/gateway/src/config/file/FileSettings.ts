import { Predicate, Record, Schema, SchemaAST } from "effect"
import type { Issue } from "../setting/ConfigProblem.ts"
import type { Setting } from "../setting/Setting.ts"
import { type SettingName, table } from "../setting/Settings.ts"

const Scalar = Schema.Union([Schema.String, Schema.Finite])

/** How the file may write a setting. The setting's own schema then reads it as text, as it reads a variable. */
const Value = Scalar.annotate({ message: "Expected text or a number" })

const List = Schema.Union([
  Scalar,
  Schema.Array(Scalar),
  Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Array(Schema.String)]))
]).annotate({ message: "Expected text, a number or a list" })

const Flag = Schema.Union([Schema.Boolean, Schema.Literals(["true", "false"])]).annotate({
  message: "Expected true or false"
})

type Written = typeof List.Type | typeof Flag.Type

const writtenAs = ({ list, schema }: Setting): Schema.Codec<Written, unknown> =>
  SchemaAST.isBoolean(Schema.toType(schema).ast) ? Flag : list === true ? List : Value

/** The settings that the file may have: section, key, and the setting that stands there. */
const inFile = Record.toEntries(table).flatMap(([name, setting]) =>
  setting.path === undefined ? [] : [{ name, path: setting.path, schema: writtenAs(setting) }]
)

/** The keys of the sections that have settings. */
export const keys = Record.map(
  Object.groupBy(inFile, ({ path: [section] }) => section),
  (settings = []) => Object.fromEntries(settings.map(({ path: [, key], schema }) => [key, Schema.optionalKey(schema)]))
)

/** A setting of the file, as the environment would write it. */
export interface FileSetting {
  readonly name: SettingName
  readonly path: Issue["path"]
  readonly text: string
}

const elements = (written: Written): ReadonlyArray<string> => {
  if (typeof written !== "object") return [String(written)]
  if (Array.isArray(written)) return written.map(String)
  return Object.entries(written).flatMap(([name, values]) => [values].flat().map((value) => `${name}=${value}`))
}

/** Collects every setting of a document, whatever else is wrong with the document. No element of a list has a comma. */
export const settingsOf = (
  document: unknown
): { readonly settings: ReadonlyArray<FileSetting>; readonly issues: ReadonlyArray<Issue> } => {
  const settings: Array<FileSetting> = []
  const issues: Array<Issue> = []
  for (const { name, path, schema } of inFile) {
    const [section, key] = path
    const written = member(member(document, section), key)
    if (!Schema.is(schema)(written)) continue
    const texts = elements(written).map((text) => text.trim())
    if (typeof written === "object" && texts.some((text) => text.includes(","))) {
      issues.push({ path, expected: "Expected a list without commas in its elements" })
    } else if (texts.includes("")) {
      issues.push({ path, expected: "Expected text that is not empty" })
    } else {
      settings.push({ name, path, text: texts.join(",") })
    }
  }
  return { settings, issues }
}

const member = (value: unknown, key: string): unknown =>
  Predicate.hasProperty(value, key) && Object.hasOwn(value, key) ? value[key] : undefined
