import type { Json } from "@bowline/client"

/** One argument of a call, with what the schema of its tool says of it. */
export interface Field {
  /** `amount`, or `payee.iban` of an object in the arguments. */
  readonly name: string
  readonly value: Json
  /** The schema's own words: its description, or its title. */
  readonly words: string | null
  /** What the schema demands: `at most 100000`, `one of EUR, USD`. */
  readonly limits: string | null
  /** Why somebody should look twice; null where the schema says nothing of the kind. */
  readonly risk: string | null
}

type Schema = { readonly [key: string]: Json }

const isObject = (value: Json | undefined): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const text = (value: Json | undefined): string | null => (typeof value === "string" && value !== "" ? value : null)

/** How deep objects in the arguments are rows of their own. */
const deepest = 3

/** A place of the schema, with what its `$ref` refers to within the same schema. */
const resolved = (root: Schema, given: Json | undefined): Schema => {
  if (!isObject(given)) return {}
  const ref = text(given["$ref"])
  if (ref === null || !ref.startsWith("#/")) return given
  const found = ref
    .slice(2)
    .split("/")
    .reduce<Json | undefined>((place, key) => (isObject(place) ? place[key] : undefined), root)
  return isObject(found) ? { ...found, ...given } : given
}

const limitsOf = (schema: Schema): string | null => {
  const { const: only, default: usual, enum: choices, format, maxLength, maximum, minimum } = schema
  const said = [
    only === undefined ? null : `always ${JSON.stringify(only)}`,
    Array.isArray(choices) ? `one of ${choices.map((choice) => String(choice)).join(", ")}` : null,
    minimum === undefined ? null : `at least ${JSON.stringify(minimum)}`,
    maximum === undefined ? null : `at most ${JSON.stringify(maximum)}`,
    maxLength === undefined ? null : `at most ${JSON.stringify(maxLength)} characters`,
    text(format),
    usual === undefined ? null : `usually ${JSON.stringify(usual)}`
  ].filter((part) => part !== null)
  return said.length === 0 ? null : said.join(", ")
}

/**
 * Words with which the author of a schema says that a value does something to the world: it cannot be taken back, moves money, reaches
 * people, or opens a door. They only mark a field. What it means is said in the author's own sentence.
 */
const grave =
  /irreversibl[ey]|(?:cannot|can't) be undone|permanent(?:ly)?|destroys?|destructive|delet(?:es?|ed|ion)|removes?\b|overwrit(?:es?|ten)|refund(?:s|ed)?|\bpay(?:s|ments?|out|ee)?\b|\bcharge[sd]?\b|transfers?|amount|money|\b(?:eur|usd|gbp|chf)\b|price|iban|account|\bsen[dt]s?\b|e-?mail|recipients?|publish(?:es)?|public|notif(?:y|ies)|customers?|production|secret|password|credentials?|permissions?|admin|force\b/i

const grown = (schema: Schema, value: Json): string | null => {
  const { default: usual, maximum } = schema
  if (typeof value === "number" && typeof maximum === "number" && maximum > 0 && value >= maximum * 0.9)
    return "near its limit"
  return usual !== undefined && JSON.stringify(usual) !== JSON.stringify(value) ? "not the usual value" : null
}

/** `payee.ibanNumber` as words. */
const wordsOf = (name: string): string => name.replaceAll(/[_.-]+/g, " ").replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ")

const riskOf = (schema: Schema, name: string, value: Json): string | null => {
  if (schema["deprecated"] === true) return "deprecated"
  // The name of a property is a word of its schema, too, and the only one of a schema that is not known here.
  const said = [text(schema["description"]), text(schema["title"]), wordsOf(name)].filter((one) => one !== null)
  const match = said.map((words) => grave.exec(words)?.[0]).find((word) => word !== undefined)
  if (match !== undefined) return `“${match.trim()}”`
  return grown(schema, value)
}

const fieldOf = (root: Schema, schema: Schema, name: string, value: Json, depth: number): ReadonlyArray<Field> => {
  if (isObject(value) && Object.keys(value).length > 0 && depth < deepest) {
    const { properties } = schema
    return Object.entries(value).flatMap(([key, one]) =>
      fieldOf(
        root,
        resolved(root, isObject(properties) ? properties[key] : undefined),
        `${name}.${key}`,
        one,
        depth + 1
      )
    )
  }
  const words = text(schema["description"]) ?? text(schema["title"])
  return [{ name, value, words, limits: limitsOf(schema), risk: riskOf(schema, name, value) }]
}

/** The arguments of a call as rows; null where they are no object. Without a schema no field has words. */
export const fieldsOf = (input: Json, schema: Schema | null): ReadonlyArray<Field> | null => {
  if (!isObject(input)) return null
  const root = schema ?? {}
  const properties = isObject(root["properties"]) ? root["properties"] : {}
  return Object.entries(input).flatMap(([name, value]) =>
    fieldOf(root, resolved(root, properties[name]), name, value, 1)
  )
}
