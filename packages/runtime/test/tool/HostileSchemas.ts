import type { JsonSchema } from "../../src/tool/Tool.ts"

const many = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))

const properties = (count: number, make: (index: number) => JsonSchema | boolean): JsonSchema =>
  Object.fromEntries(many(count, (index) => [`p${index}`, make(index)]))

/** A large schema that is referred to from everywhere: a compiler that puts it in each place writes gigabytes. */
export const inlined: JsonSchema = {
  $defs: { large: { properties: properties(700, () => ({ type: "string", minLength: 1 })) } },
  properties: properties(500, () => ({ $ref: "#/$defs/large" }))
}

/** Each level asks the next one twice. */
export const endless: JsonSchema = {
  $defs: Object.fromEntries(
    many(41, (index) => [
      `d${index}`,
      index === 40 ? { not: {} } : { anyOf: many(2, () => ({ $ref: `#/$defs/d${index + 1}` })) }
    ])
  ),
  $ref: "#/$defs/d0"
}

/** They are legal, and no validator comes to an end with them. */
export const selfReferences: ReadonlyArray<JsonSchema> = [
  { $ref: "#" },
  { $dynamicRef: "#x" },
  { if: { $ref: "#" }, then: false },
  { unevaluatedProperties: false, allOf: [{ $ref: "#" }] }
]

/** A pattern that no linear engine takes, since it refers back. */
export const slowPattern = {
  schema: { properties: { a: { type: "string", pattern: "^$|^(([a-z])+.)+\\2[A-Z]([a-z])+$" } } },
  input: JSON.stringify({ a: "a".repeat(60) })
}
