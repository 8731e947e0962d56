import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import type { Ajv } from "ajv"
import { Result, Struct } from "effect"
import { type Draft, draftOf, drafts } from "./internal/Validation.ts"
import type { JsonSchema } from "./Tool.ts"

/** Bounds on one schema. `characters` are those of its JSON. */
const limits = { characters: 65_536, references: 512, alternatives: 1_024, patterns: 128 }

/** How many characters the schemas of one plan may have together: each is looked at before the plan starts. */
export const maxCharacters = 524_288

/** Each knows the meta-schema of its draft and nothing else, and compiles no schema of a stranger. One is made when the first schema of its draft comes. */
const metaSchemas = new Map<Draft, Pick<Ajv, "validateSchema" | "errorsText" | "errors">>()

const metaSchemaOf = (draft: Draft) => {
  const known =
    metaSchemas.get(draft) ?? new drafts[draft].Version({ strict: false, validateFormats: false, logger: false })
  metaSchemas.set(draft, known)
  return known
}

/** The meta-schema's own documents, which a schema may refer to. */
const isMetaSchema = (draft: Draft, document: string): boolean =>
  draft === "draft-07"
    ? document === "http://json-schema.org/draft-07/schema"
    : document.startsWith(`https://json-schema.org/draft/${draft}/`)

/** Keywords with schemas by names: what stands in them is a name, not a keyword. */
const byName: ReadonlySet<string> = new Set([
  "$defs",
  "definitions",
  "properties",
  "patternProperties",
  "dependentSchemas",
  "dependencies"
])
/** Keywords with values: nothing in them is a keyword. */
const ofValues: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"])

/** What costs time in a schema. */
interface Parts {
  readonly references: Array<string>
  readonly anchors: Set<string>
  readonly patterns: Array<string>
  alternatives: number
  /** Schemas with an `$id` of their own inside: references in them lead elsewhere. */
  hasDocuments: boolean
}

const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const size = (value: unknown): number =>
  Array.isArray(value) ? value.length : isRecord(value) ? Object.keys(value).length : 0

const countKeyword = (parts: Parts, key: string, value: unknown, isRoot: boolean): void => {
  switch (key) {
    case "$ref":
    case "$dynamicRef":
    case "$recursiveRef":
      if (typeof value === "string") parts.references.push(value)
      return
    case "$anchor":
    case "$dynamicAnchor":
      if (typeof value === "string") parts.anchors.add(value)
      return
    case "$id":
      if (!isRoot) parts.hasDocuments = true
      return
    case "pattern":
      if (typeof value === "string") parts.patterns.push(value)
      return
    case "patternProperties":
      if (isRecord(value)) parts.patterns.push(...Object.keys(value))
      return
    case "if":
    case "not":
      parts.alternatives++
      return
    case "allOf":
    case "anyOf":
    case "oneOf":
    case "dependentSchemas":
    case "dependencies":
      parts.alternatives += size(value)
  }
}

/** Walks the schema once, without recursion. */
const partsOf = (schema: JsonSchema): Parts => {
  const parts: Parts = { references: [], anchors: new Set(), patterns: [], alternatives: 0, hasDocuments: false }
  const open: Array<{ readonly value: unknown; readonly isByName: boolean }> = [{ value: schema, isByName: false }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { isByName, value } = next
    if (Array.isArray(value)) {
      for (const item of value) open.push({ value: item, isByName: false })
    } else if (isRecord(value)) {
      for (const [key, inner] of Object.entries(value)) {
        if (!isByName) countKeyword(parts, key, inner, value === schema)
        if (isByName || !ofValues.has(key)) open.push({ value: inner, isByName: !isByName && byName.has(key) })
      }
    }
  }
  return parts
}

const decodePointer = (pointer: string): ReadonlyArray<string> | undefined => {
  const decoded = Result.try(() => decodeURIComponent(pointer))
  if (Result.isFailure(decoded)) return undefined
  return decoded.success
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
}

const leadsSomewhere = (schema: JsonSchema, pointer: string): boolean => {
  let value: unknown = schema
  for (const key of decodePointer(pointer) ?? [""]) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return false
    value = Reflect.get(value, key)
  }
  return true
}

/** Whether a reference leads to a place in the schema, or to the meta-schema. No other document is fetched. */
const isResolvable = (schema: JsonSchema, draft: Draft, { anchors }: Parts, reference: string): boolean => {
  const [document = "", fragment = ""] = reference.split("#", 2)
  if (isMetaSchema(draft, document)) return true
  const base = URL.parse(typeof schema["$id"] === "string" ? schema["$id"] : "", "schema:///")
  if (base === null || URL.parse(document, base.href)?.href !== base.href) return false
  return fragment === "" || (fragment.startsWith("/") ? leadsSomewhere(schema, fragment) : anchors.has(fragment))
}

const isPattern = (pattern: string): boolean => Result.isSuccess(Result.try(() => new RegExp(pattern)))

const countProblem = ({ alternatives, patterns, references }: Parts): string | undefined => {
  const counts = { references: references.length, alternatives, patterns: patterns.length }
  for (const name of ["references", "alternatives", "patterns"] as const) {
    if (counts[name] > limits[name]) return `at most ${limits[name]} ${name}, got ${counts[name]}`
  }
  return undefined
}

/** The draft is known: its name has more than one spelling, of which the library has one. */
const metaSchemaProblem = (schema: JsonSchema, draft: Draft): string | undefined => {
  const known = metaSchemaOf(draft)
  return Result.match(
    Result.try({
      try: () => known.validateSchema(Struct.omit(schema, ["$schema"])),
      catch: (error) => (error instanceof Error ? error.message : String(error))
    }),
    {
      onFailure: (message) => message,
      onSuccess: (isValid) => (isValid === true ? undefined : known.errorsText(known.errors, { dataVar: "schema" }))
    }
  )
}

const unknownDraft = ({ $schema }: JsonSchema): string =>
  `Expected a $schema of JSON Schema draft-07, 2019-09 or 2020-12, or none, got ${JSON.stringify($schema).slice(0, 200)}`

/** How many characters the schema has as JSON. */
export const charactersOf = (schema: JsonSchema): number => JSON.stringify(schema).length

/**
 * Says what was expected of a schema in place of what it is, if anything. Everything is counted, and nothing is compiled: a schema that passes may still
 * turn out to be unusable when its tool is first called.
 */
export const problem = (schema: JsonSchema): string | undefined => {
  const unfit = JsonValue.problem(schema)
  if (unfit !== undefined) return unfit
  const characters = charactersOf(schema)
  if (characters > limits.characters) return `Expected at most ${limits.characters} characters, got ${characters}`
  const parts = partsOf(schema)
  const tooMany = countProblem(parts)
  if (tooMany !== undefined) return `Expected ${tooMany}`
  const draft = draftOf(schema)
  if (draft === undefined) return unknownDraft(schema)
  const wrong = metaSchemaProblem(schema, draft)
  if (wrong !== undefined) return `Expected a JSON Schema ${draft}: ${wrong}`
  const pattern = parts.patterns.find((text) => !isPattern(text))
  if (pattern !== undefined) return `Expected regular expressions, got ${JSON.stringify(pattern)}`
  const reference = parts.hasDocuments
    ? undefined
    : parts.references.find((text) => !isResolvable(schema, draft, parts, text))
  return reference === undefined
    ? undefined
    : `Expected references to places in the schema, got ${JSON.stringify(reference)}`
}
