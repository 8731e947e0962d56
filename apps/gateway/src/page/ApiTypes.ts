/** What the page of the API reads of a JSON Schema. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly enum?: ReadonlyArray<unknown>
  readonly description?: string
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly allOf?: ReadonlyArray<JsonSchema>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
}

/** Objects within objects are shown so deep. */
const deepest = 3

const objectOf = (schema: JsonSchema, depth: number): string => {
  const properties = propertiesOf(schema)
  if (properties.length === 0 || depth >= deepest) return "object"
  const fields = properties.map(
    ({ name, required, schema }) => `${name}${required ? "" : "?"}: ${wordsOf(schema, depth + 1)}`
  )
  return `{ ${fields.join(", ")} }`
}

const wordsOf = (schema: JsonSchema, depth: number): string => {
  const { $ref, anyOf, enum: choices, items, oneOf, type } = schema
  if ($ref !== undefined) return `#${$ref.split("/").at(-1) ?? ""}`
  const alternatives = anyOf ?? oneOf
  if (alternatives !== undefined) return [...new Set(alternatives.map((one) => wordsOf(one, depth)))].join(" | ")
  if (choices !== undefined) return choices.map((choice) => JSON.stringify(choice)).join(" | ")
  if (type === "array") return `list of ${items === undefined ? "any" : wordsOf(items, depth)}`
  if (type === "object" || schema.properties !== undefined) return objectOf(schema, depth)
  return type === undefined ? "any" : [type].flat().join(" | ")
}

/** A type in words, such as `list of #Plan | null`: behind `#` is the name of a schema. */
export const typeOf = (schema: JsonSchema | undefined): string => (schema === undefined ? "any" : wordsOf(schema, 0))

/** The fields of an object in their order. */
export const propertiesOf = ({ properties = {}, required = [] }: JsonSchema) =>
  Object.entries(properties).map(([name, schema]) => ({ name, schema, required: required.includes(name) }))
