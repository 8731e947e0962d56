import type { JsonSchema, ToolInput } from "../../src/tool/Tool.ts"

/** Numbers in 0..1 that depend on the seed only (mulberry32). */
const numbers = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const patterns = ["^(a+)+$", "^(([a-z])+.)+\\2[A-Z]$", "(a|aa)*\\1b", "^(a{1,999}){1,999}$", "(?=(a+))a*b\\1", ""]
const names = ["a", "b", "c", "__proto__", "constructor", "$ref", "~/"]

/** A schema that means harm, and arguments for it. The same seed gives the same. */
export const randomCall = (seed: number): { readonly schema: JsonSchema; readonly input: ToolInput } => {
  const random = numbers(seed)
  const below = (limit: number) => Math.floor(random() * limit)
  const oneOf = <A>(items: readonly [A, ...Array<A>]): A => items[below(items.length)] ?? items[0]
  const upTo = <A>(limit: number, make: (index: number) => A) =>
    Array.from({ length: below(limit + 1) }, (_, i) => make(i))
  const definitions = 1 + below(60)
  const reference = () =>
    oneOf([
      () => "#",
      () => `#/$defs/d${below(definitions)}`,
      () => `#/$defs/d${below(definitions)}`,
      () => `#d${below(definitions)}`,
      () => (random() < 0.01 ? "#/nowhere" : "https://json-schema.org/draft/2020-12/schema")
    ])()
  const fan = oneOf([2, 2, 4, 40])

  const schema = (depth: number): JsonSchema | boolean =>
    depth === 0 ? random() < 0.7 : Object.fromEntries(keywords(depth))
  const some = (depth: number) => [schema(depth - 1), ...upTo(fan, () => schema(depth - 1))]
  const named = (depth: number) =>
    Object.fromEntries(upTo(fan, (i) => [names[i] ?? `p${i}`, schema(depth - 1)] as const))
  const keyword = (depth: number): readonly [string, JsonSchema[string]] =>
    oneOf<() => readonly [string, JsonSchema[string]]>([
      () => ["$ref", reference()],
      () => ["$ref", reference()],
      () => ["$dynamicRef", reference()],
      () => [oneOf(["allOf", "anyOf", "oneOf", "prefixItems"]), some(depth)],
      () => [oneOf(["allOf", "anyOf", "oneOf"]), [{ $ref: reference() }, ...upTo(fan, () => ({ $ref: reference() }))]],
      () => [oneOf(["if", "then", "else", "not", "items", "contains", "propertyNames"]), schema(depth - 1)],
      () => [oneOf(["unevaluatedProperties", "unevaluatedItems", "additionalProperties"]), schema(depth - 1)],
      () => [oneOf(["properties", "dependentSchemas", "$defs"]), named(depth)],
      () => ["patternProperties", { [oneOf(["^(a+)+$", "(a|aa)*b", "."])]: schema(depth - 1) }],
      () => ["pattern", patterns[below(patterns.length)] ?? ""],
      () => ["uniqueItems", true],
      () => [oneOf(["enum", "const"]), upTo(200, (i) => ({ a: i }))],
      () => ["multipleOf", 1e-300],
      () => ["type", random() < 0.01 ? "strin" : "object"],
      () => ["required", ["a", "b"]]
    ])()
  const keywords = (depth: number) => upTo(3, () => keyword(depth))

  const value = (depth: number): JsonSchema[string] =>
    oneOf<() => JsonSchema[string]>([
      () => "a".repeat(below(200)),
      () => oneOf([0, -1, 1e308, true, null]),
      () => (depth === 0 ? [] : upTo(oneOf([3, 3_000]) / (8 - depth), () => value(0))),
      () => (depth === 0 ? {} : input(depth - 1))
    ])()
  const input = (depth: number): ToolInput => Object.fromEntries(names.map((name) => [name, value(depth)]))

  const $defs = Object.fromEntries(
    Array.from({ length: definitions }, (_, i) => [`d${i}`, { $anchor: `d${i}`, ...Object.fromEntries(keywords(3)) }])
  )
  return { schema: { $defs, ...Object.fromEntries(keywords(4)), ...Object.fromEntries(keywords(4)) }, input: input(5) }
}
