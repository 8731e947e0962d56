import type { JsonSchema } from "@bowline/runtime/provider/Provider"
import { Predicate, Schema } from "effect"

/** The names of arguments that take a question as it is. */
export const textInputs: ReadonlySet<string> = new Set([
  "input",
  "message",
  "prompt",
  "q",
  "query",
  "question",
  "request",
  "search",
  "text"
])

/** How deep a schema is followed. */
const maxDepth = 8

const isJson = Schema.is(Schema.Json)
const isObject = (value: unknown): value is JsonSchema => Predicate.isObject(value) && isJson(value)
const isList = Schema.is(Schema.Array(Schema.Json))
const listOf = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (isList(value) ? value : [])

/** What a question has to offer. Each number is used once. */
interface Words {
  readonly text: string
  readonly numbers: Array<number>
  readonly find: (pattern: RegExp) => string | undefined
}

const read = (text: string): Words => ({
  text,
  numbers: Array.from(text.matchAll(/(?<![\p{L}\d])-?\d+(?:\.\d+)?(?![\p{L}\d])/gu), ([number]) => Number(number)),
  find: (pattern) => pattern.exec(text)?.[0]
})

/** What matches a schema, as far as a script can tell, made up from the words of a question. */
const makerOf = (schema: JsonSchema, text: string) => {
  const words = read(text)
  const value = (given: Schema.Json | undefined, name: string, depth: number): Schema.Json => {
    const part = resolve(schema, given)
    const [first] = listOf(part["examples"])
    const preset = part["const"] ?? part["default"] ?? first
    const choices = [...listOf(part["anyOf"]), ...listOf(part["oneOf"]), ...listOf(part["allOf"])]
    const type = typeOf(part)
    if (isList(part["enum"])) return part["const"] ?? chosen(part["enum"], words) ?? preset ?? part["enum"][0] ?? ""
    if (type === undefined && choices.length > 0 && depth < maxDepth) {
      return value(choices.find((choice) => typeOf(resolve(schema, choice)) !== "null") ?? null, name, depth + 1)
    }
    switch (type) {
      case "object":
        return depth < maxDepth ? object(part, depth) : {}
      case "array": {
        const length = Math.min(Math.max(1, Number(part["minItems"] ?? 1)), maxDepth)
        return Array.from({ length }, () => value(part["items"], name, depth + 1))
      }
      case "number":
      case "integer":
        return part["const"] ?? number(part, words, preset)
      case "boolean":
        return preset ?? false
      case "null":
        return null
      default:
        return part["const"] ?? string(part, name, words, preset)
    }
  }
  const object = (part: JsonSchema, depth: number): JsonSchema => {
    const properties = isObject(part["properties"]) ? part["properties"] : {}
    const required = listOf(part["required"]).filter((name) => typeof name === "string")
    const names = required.length > 0 ? required : Object.keys(properties).filter((name) => textInputs.has(name))
    return Object.fromEntries(names.map((name) => [name, value(properties[name], name, depth + 1)]))
  }
  return { object, value }
}

/** Arguments for a tool of this schema. */
export const makeInput = (schema: JsonSchema, text: string): JsonSchema => {
  const { properties } = schema
  const isWait = isObject(properties) && "seconds" in properties && "until" in properties
  return isWait ? waitInput(text) : makerOf(schema, text).object(schema, 0)
}

/** An answer of this schema. */
export const makeAnswer = (schema: JsonSchema, text: string): Schema.Json => makerOf(schema, text).value(schema, "", 0)

/** A part of the schema, or what it refers to within the document. */
const resolve = (root: JsonSchema, given: Schema.Json | undefined): JsonSchema => {
  if (!isObject(given)) return {}
  const { $ref } = given
  if (typeof $ref !== "string" || !$ref.startsWith("#/")) return given
  let found: Schema.Json | undefined = root
  for (const key of $ref.slice(2).split("/")) found = isObject(found) ? found[key] : undefined
  return isObject(found) ? found : {}
}

const typeOf = ({ properties, type }: JsonSchema): Schema.Json | undefined =>
  (isList(type) ? type.find((one) => one !== "null") : type) ?? (properties === undefined ? undefined : "object")

/** The member of an enumeration that the question mentions. */
const chosen = (members: ReadonlyArray<Schema.Json>, { text }: Words): Schema.Json | undefined =>
  members.find((member) => typeof member === "string" && text.toLowerCase().includes(member.toLowerCase()))

const number = (part: JsonSchema, { numbers }: Words, preset: Schema.Json | undefined): number => {
  const { exclusiveMinimum, maximum, minimum, type } = part
  const least =
    typeof minimum === "number" ? minimum : typeof exclusiveMinimum === "number" ? exclusiveMinimum + 1 : -Infinity
  const most = typeof maximum === "number" ? maximum : Infinity
  const found = numbers.shift() ?? (typeof preset === "number" ? preset : 1)
  return Math.min(Math.max(type === "integer" ? Math.round(found) : found, least), most)
}

/** What a format looks like, and an example of it. */
const formats: Readonly<Record<string, readonly [pattern: RegExp, example: string]>> = {
  date: [/\d{4}-\d{2}-\d{2}/, "2026-01-01"],
  "date-time": [/\d{4}-\d{2}-\d{2}T[\d:.]+(?:Z|[+-]\d{2}:\d{2})/, "2026-01-01T00:00:00Z"],
  email: [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/, "demo@example.com"],
  uri: [/https?:\/\/\S+/, "https://example.com/"],
  url: [/https?:\/\/\S+/, "https://example.com/"],
  uuid: [/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/i, "00000000-0000-4000-8000-000000000000"]
}

const units: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3_600, day: 86_400 }

/** Arguments for the gateway's tool `wait`, which takes one of two: the time that the question names, else a minute. */
const waitInput = (text: string): JsonSchema => {
  const why = text.slice(0, 200).toWellFormed()
  const until = formats["date-time"]?.[0].exec(text)?.[0]
  if (until !== undefined) return { until, why }
  const [, count = "1", unit = "minute"] = /(?:(\d{1,7})\s+)?(second|minute|hour|day)s?\b/i.exec(text) ?? []
  const seconds = Number(count) * (units[unit.toLowerCase()] ?? 1)
  return { seconds: Math.min(Math.max(seconds, 1), 2_592_000), why }
}

// The names of things have a digit, or begin with a capital in the middle of a sentence.
const withDigit = /[\p{L}\p{N}_-]*\d[\p{L}\p{N}_-]*/u
const withCapital = /(?<=\p{Ll}\P{L}+)\p{Lu}[\p{L}-]+(?:\s\p{Lu}[\p{L}-]+)*/u

const string = (
  { format, maxLength, minLength }: JsonSchema,
  name: string,
  { find, text }: Words,
  preset: Schema.Json | undefined
): string => {
  const shape = typeof format === "string" ? formats[format] : undefined
  const most = typeof maxLength === "number" ? maxLength : Infinity
  const least = typeof minLength === "number" ? minLength : 0
  const fit = (found: string) => found.slice(0, most).padEnd(least, ".").toWellFormed()
  if (shape !== undefined) return find(shape[0]) ?? shape[1]
  if (textInputs.has(name.toLowerCase())) return fit(text)
  const [first, second] = /(?:id|key|code|number|no)$/i.test(name) ? [withDigit, withCapital] : [withCapital, withDigit]
  return fit(find(first) ?? find(second) ?? (typeof preset === "string" ? preset : text))
}
