import { Predicate } from "effect"
import type { JsonSchema } from "../tool/Tool.ts"

/** Keywords that say nothing of the answer, or are looked at one by one. Providers refuse every other one. */
const known: ReadonlySet<string> = new Set([
  "$schema",
  "title",
  "description",
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "enum",
  "const",
  "anyOf",
  "$ref",
  "$defs",
  "definitions"
])

const isPrimitive = (value: unknown): boolean =>
  value === null || ["string", "number", "boolean"].includes(typeof value)

const schemasOf = (value: unknown): ReadonlyArray<unknown> =>
  typeof value === "object" && value !== null ? Object.values(value) : []

/** Whether a schema of an object is closed and, if that is asked for, has no property that may be missing. */
const isClosed = ({ additionalProperties, properties, required }: JsonSchema, needsAll: boolean): boolean => {
  if (additionalProperties !== false) return false
  const names = Predicate.isObject(properties) ? Object.keys(properties) : []
  const isNeeded = (name: string): boolean => Array.isArray(required) && required.includes(name)
  return !needsAll || names.every(isNeeded)
}

const isStrictHere = (schema: JsonSchema, needsAll: boolean): boolean => {
  const { $ref, anyOf, const: only, enum: values, type } = schema
  if (Object.keys(schema).some((key) => !known.has(key))) return false
  if ($ref !== undefined) {
    return typeof $ref === "string" && /^#\/(?:\$defs|definitions)\//.test($ref) && Object.keys(schema).length === 1
  }
  if (values !== undefined && !(Array.isArray(values) && values.every(isPrimitive))) return false
  if (only !== undefined && !isPrimitive(only)) return false
  const isTyped = [type, anyOf, only, values].some(Predicate.isNotUndefined)
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object")) || "properties" in schema
  return isTyped && (!isObject || isClosed(schema, needsAll))
}

/**
 * Whether a schema is in the part of JSON Schema to which providers hold an answer exactly: closed objects, lists, unions, constants and
 * references to its own definitions, without bounds and patterns. With `needsAll` no property may be missing, as OpenAI wants it.
 */
export const isStrict = (schema: JsonSchema, { needsAll }: { readonly needsAll: boolean }): boolean => {
  if (schema["type"] !== "object" || "anyOf" in schema) return false
  const open: Array<unknown> = [schema]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (!isJsonSchema(next) || !isStrictHere(next, needsAll)) return false
    const { $defs, anyOf, definitions, items, properties } = next
    for (const inner of [properties, $defs, definitions, anyOf]) open.push(...schemasOf(inner))
    if (items !== undefined) open.push(items)
  }
  return true
}

const isJsonSchema = (value: unknown): value is JsonSchema => Predicate.isObject(value) && !Array.isArray(value)
