import { Ajv, type ErrorObject } from "ajv"
import { Ajv2019 } from "ajv/dist/2019.js"
import { Ajv2020 } from "ajv/dist/2020.js"

/** The result of a check: the arguments match, or what is wrong with them and where, or that the schema itself is unusable. */
export type Verdict =
  | { readonly _tag: "Fits" }
  | { readonly _tag: "Wrong"; readonly issues: ReadonlyArray<string> }
  | { readonly _tag: "Unusable"; readonly reason: string }

/** A schema as a function; `size` is how many characters of code that takes. */
export interface Validation {
  readonly size: number
  readonly check: (input: unknown) => Verdict
}

/** V8 parses code in one go, outside the limit of its heap. Nothing can stop it there, so the size of the code is limited. */
const maxCode = 4_194_304

const maxIssues = 10

const isObject = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === "object" && value !== null

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** A schema that refers to itself without a way out overflows the stack, as do arguments that are nested too deep for it. */
const unusable = (error: unknown): Verdict => ({
  _tag: "Unusable",
  reason: error instanceof RangeError ? "It refers to itself without an end" : messageOf(error)
})

/** The drafts of JSON Schema that a schema may be written in. */
export const drafts = {
  "draft-07": { Version: Ajv, uri: /^https?:\/\/json-schema\.org\/draft-07\/schema#?$/ },
  "2019-09": { Version: Ajv2019, uri: /^https?:\/\/json-schema\.org\/draft\/2019-09\/schema#?$/ },
  "2020-12": { Version: Ajv2020, uri: /^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/ }
}
export type Draft = keyof typeof drafts

/** The draft that a schema names in `$schema`, or 2020-12 if it names none; undefined for any other name. */
export const draftOf = ({ $schema }: { readonly [key: string]: unknown }): Draft | undefined => {
  if ($schema === undefined) return "2020-12"
  const names = ["draft-07", "2019-09", "2020-12"] as const
  return typeof $schema === "string" ? names.find((name) => drafts[name].uri.test($schema)) : undefined
}

/** Where and what. A property that is one too many is named by the parameters alone. */
const issueOf = ({ instancePath, keyword, message = keyword, params }: ErrorObject): string => {
  const { additionalProperty, unevaluatedProperty = additionalProperty }: Record<string, unknown> = params
  const named = typeof unevaluatedProperty === "string" ? ` ${JSON.stringify(unevaluatedProperty.slice(0, 100))}` : ""
  return `${instancePath === "" ? "/" : instancePath}: ${message}${named}`
}

/** Compiles a schema to code, and throws what is wrong with it. */
const compile = (schema: unknown): Validation => {
  if (!isObject(schema)) throw new Error("Expected an object")
  let size = 0
  // One of its own for each schema: those of two callers may have the same `$id`.
  const { Version } = drafts[draftOf(schema) ?? "2020-12"]
  const ajv = new Version({
    strict: false,
    // It is done for strangers' schemas before: see `ToolSchema`.
    validateSchema: false,
    validateFormats: false,
    allErrors: true,
    logger: false,
    unicodeRegExp: false,
    // What is referred to becomes one function: inlined, 64 KiB of schema become gigabytes of code.
    inlineRefs: false,
    code: {
      // It takes as long as all the rest, and a check runs a few times only.
      optimize: false,
      process: (code) => {
        size += code.length
        if (size > maxCode) throw new Error("It is too complex")
        return code
      }
    }
  })
  const validate = ajv.compile(schema)
  // An asynchronous schema would return a promise.
  if ("$async" in validate) throw new Error("Expected no $async")
  const check = (input: unknown): Verdict => {
    if (validate(input)) return { _tag: "Fits" }
    const issues = (validate.errors ?? []).slice(0, maxIssues).map(issueOf)
    // The instance is kept for as long as the schema.
    validate.errors = null
    return { _tag: "Wrong", issues }
  }
  return { size, check }
}

/** The schema as a function that never throws. */
export const make = (schema: unknown): Validation => {
  try {
    const { check, size } = compile(schema)
    return {
      size,
      check: (input) => {
        try {
          return check(input)
        } catch (error) {
          return unusable(error)
        }
      }
    }
  } catch (error) {
    const verdict = unusable(error)
    return { size: 0, check: () => verdict }
  }
}
