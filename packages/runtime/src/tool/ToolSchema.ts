import * as JsonValue from "@bowline/domain/json/JsonValue"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { Result } from "effect"
import type { JsonSchema, ToolInput } from "./Tool.ts"

/** Compiling costs milliseconds, and the same catalogs come again and again. */
const compiled = new Map<string, Result.Result<ValidateFunction, string>>()
const maxCompiled = 1_000
/** Compiling a large one holds up everybody. */
const maxSchema = 65_536

const compile = (schema: JsonSchema): Result.Result<ValidateFunction, string> => {
  const unfit = JsonValue.problem(schema)
  if (unfit !== undefined) return Result.fail(unfit)
  const key = JSON.stringify(schema)
  if (key.length > maxSchema) return Result.fail(`Expected at most ${maxSchema} characters`)
  const known = compiled.get(key)
  if (known !== undefined) return known
  const validate = Result.try({
    // One of its own for each schema: those of two callers may have the same `$id`.
    try: () =>
      new Ajv2020({
        strict: false,
        validateFormats: false,
        allErrors: true,
        logger: false,
        unicodeRegExp: false
      }).compile(schema),
    catch: (error) => (error instanceof Error ? error.message : String(error))
  })
  const oldest = compiled.keys().next()
  if (compiled.size >= maxCompiled && oldest.done !== true) compiled.delete(oldest.value)
  compiled.set(key, validate)
  return validate
}

/** Says what is wrong with a schema, if anything is. */
export const problem = (schema: JsonSchema): string | undefined => {
  const validate = compile(schema)
  return Result.isFailure(validate) ? validate.failure : undefined
}

const isObject = (value: unknown): value is ToolInput =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The arguments of a call as the model wrote them, parsed and matched with the schema; or what is wrong, and where. */
export const parseInput = (
  schema: JsonSchema,
  text: string
): Result.Result<ToolInput, { readonly input: ToolInput | string; readonly message: string }> => {
  const parsed = Result.try(() => (text.trim() === "" ? {} : (JSON.parse(text) as unknown)))
  if (Result.isFailure(parsed)) return Result.fail({ input: text, message: "The arguments are not valid JSON" })
  const input = parsed.success
  if (!isObject(input)) return Result.fail({ input: text, message: "The arguments are not a JSON object" })
  const unfit = JsonValue.problem(input)
  if (unfit !== undefined) return Result.fail({ input: text, message: `The arguments cannot be used. ${unfit}` })
  const validate = compile(schema)
  if (Result.isFailure(validate)) {
    return Result.fail({ input, message: `The schema of the tool cannot be used: ${validate.failure}` })
  }
  if (validate.success(input)) return Result.succeed(input)
  const issues = (validate.success.errors ?? []).map(
    (error) => `${error.instancePath === "" ? "/" : error.instancePath}: ${error.message ?? error.keyword}`
  )
  return Result.fail({ input, message: `The arguments do not match the schema. ${issues.slice(0, 10).join("; ")}` })
}
