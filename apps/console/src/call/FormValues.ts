import type { Json } from "@bowline/client"

/** A field of a form that a JSON Schema describes. */
export interface FormField {
  readonly name: string
  /** `json` is whatever a form has no field for. */
  readonly kind: "text" | "number" | "choice" | "json"
  readonly required: boolean
  readonly words: string | null
  /** Of a `choice`: what can be chosen. */
  readonly choices: ReadonlyArray<Json>
  readonly usual: Json | undefined
}

export type JsonObject = { readonly [key: string]: Json }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const text = (value: Json | undefined): string | null => (typeof value === "string" && value !== "" ? value : null)

const kindOf = ({ enum: choices, type }: JsonObject): FormField["kind"] => {
  if (Array.isArray(choices) || type === "boolean") return "choice"
  if (type === "number" || type === "integer") return "number"
  return type === "string" ? "text" : "json"
}

/** The fields of an object's schema in their order; none where it names no properties: then the value is written as JSON. */
export const formOf = (schema: Json): ReadonlyArray<FormField> => {
  const { properties, required } = isObject(schema) ? schema : {}
  if (!isObject(properties)) return []
  return Object.entries(properties).map(([name, given]) => {
    const own = isObject(given) ? given : {}
    const { default: usual, enum: choices } = own
    const kind = kindOf(own)
    return {
      name,
      kind,
      required: Array.isArray(required) && required.includes(name),
      words: text(own["description"]) ?? text(own["title"]),
      choices: Array.isArray(choices) ? choices : kind === "choice" ? [true, false] : [],
      usual
    }
  })
}

/** What is typed into the fields, by their names. */
export type Typed = Readonly<Record<string, string>>

/** What a field shows of a value that it may already have. Choices are their JSON. */
export const typedOf = (fields: ReadonlyArray<FormField>, value: JsonObject): Typed =>
  Object.fromEntries(
    fields.map(({ kind, name, usual }) => {
      const known = value[name] ?? usual
      if (known === undefined) return [name, ""]
      return [name, kind === "text" && typeof known === "string" ? known : JSON.stringify(known)]
    })
  )

/** The value of what is typed, or what is wrong with it in words. */
export type Read = { readonly value: JsonObject } | { readonly problem: string }

const parseJson: (written: string) => Json = JSON.parse

/** A JSON object, as somebody has written it. */
export const readJson = (written: string): Read => {
  try {
    const value: unknown = JSON.parse(written)
    return isObject(value) ? { value } : { problem: "Expected a JSON object, such as {}." }
  } catch (error) {
    return { problem: `This is no JSON: ${error instanceof Error ? error.message : ""}` }
  }
}

const readField = (
  { kind, name }: FormField,
  written: string
): { readonly value: Json } | { readonly problem: string } => {
  if (kind === "text") return { value: written }
  if (kind === "number") {
    const value = Number(written)
    return Number.isFinite(value) ? { value } : { problem: `${name} is not a number.` }
  }
  try {
    return { value: parseJson(written) }
  } catch {
    return { problem: `${name} is no JSON. A text stands between quotation marks.` }
  }
}

/** Fields that are empty are left out. What the form has no field for stays as it was. */
export const readForm = (fields: ReadonlyArray<FormField>, typed: Typed, rest: JsonObject): Read => {
  const value: Record<string, Json> = { ...rest }
  for (const field of fields) {
    const { name, required } = field
    const written = typed[name] ?? ""
    delete value[name]
    if (written.trim() === "") {
      if (required) return { problem: `${name} is needed.` }
      continue
    }
    const read = readField(field, written)
    if ("problem" in read) return read
    value[name] = read.value
  }
  return { value }
}
