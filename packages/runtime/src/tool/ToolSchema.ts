import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import { Ajv } from "ajv"
import { Ajv2020 } from "ajv/dist/2020.js"
import { Result } from "effect"
import { isDraft07 } from "./internal/Validation.ts"
import type { JsonSchema } from "./Tool.ts"

/** Bounds on one schema. `characters` are those of its JSON. */
const limits = { characters: 65_536, references: 512, alternatives: 1_024, patterns: 128 }

/** How many characters the schemas of one plan may have together: each is looked at before the plan starts. */
export const maxCharacters = 524_288

/** The drafts of JSON Schema that a schema may be written in. One of draft-07 says so in `$schema`. */
type Draft = "2020-12" | "draft-07"

/** They know a meta-schema each and nothing else. They compile no schema of a stranger. */
const options = { strict: false, validateFormats: false, logger: false } as const
const metaSchema = new Ajv2020(options)
const metaSchema07 = new Ajv(options)

/** The meta-schema's own documents, which a schema may refer to. */
const isMetaSchema = (schema: JsonSchema, document: string): boolean =>
  isDraft07(schema)
    ? document === "http://json-schema.org/draft-07/schema"
    : document.startsWith("https://json-schema.org/draft/2020-12/")

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
const isResolvable = (schema: JsonSchema, { anchors }: Parts, reference: string): boolean => {
  const [document = "", fragment = ""] = reference.split("#", 2)
  if (isMetaSchema(schema, document)) return true
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

const metaSchemaProblem = (schema: JsonSchema, draft: Draft): string | undefined => {
  const known = draft === "draft-07" ? metaSchema07 : metaSchema
  return Result.match(
    Result.try({
      try: () => known.validateSchema(schema),
      catch: (error) => (error instanceof Error ? error.message : String(error))
    }),
    {
      onFailure: (message) => message,
      onSuccess: (isValid) => (isValid === true ? undefined : known.errorsText(known.errors, { dataVar: "schema" }))
    }
  )
}

/** How many characters the schema has as JSON. */
export const charactersOf = (schema: JsonSchema): number => JSON.stringify(schema).length

/**
 * Says what was expected of a schema in place of what it is, if anything. Everything is counted, and nothing is compiled: a schema that passes may still
 * turn out to be unusable when its tool is first called.
 */
export const problem = (schema: JsonSchema, drafts: ReadonlyArray<Draft> = ["2020-12"]): string | undefined => {
  const unfit = JsonValue.problem(schema)
  if (unfit !== undefined) return unfit
  const characters = charactersOf(schema)
  if (characters > limits.characters) return `Expected at most ${limits.characters} characters, got ${characters}`
  const parts = partsOf(schema)
  const tooMany = countProblem(parts)
  if (tooMany !== undefined) return `Expected ${tooMany}`
  const draft = drafts.find((known) => known === "draft-07" && isDraft07(schema)) ?? "2020-12"
  const wrong = metaSchemaProblem(schema, draft)
  if (wrong !== undefined) return `Expected a JSON Schema ${draft}: ${wrong}`
  const pattern = parts.patterns.find((text) => !isPattern(text))
  if (pattern !== undefined) return `Expected regular expressions, got ${JSON.stringify(pattern)}`
  const reference = parts.hasDocuments ? undefined : parts.references.find((text) => !isResolvable(schema, parts, text))
  return reference === undefined
    ? undefined
    : `Expected references to places in the schema, got ${JSON.stringify(reference)}`
}
