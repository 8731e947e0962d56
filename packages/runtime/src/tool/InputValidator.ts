import type { CallerName } from "@bowline/domain/caller/CallerName"
import * as JsonText from "@bowline/domain/unstable/json/JsonText"
import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import { Context, Effect, Layer, Option, PartitionedSemaphore, Result, type Schema } from "effect"
import { createHash } from "node:crypto"
import * as Monotonic from "../process/Monotonic.ts"
import { LruCache } from "../process/LruCache.ts"
import { truncate } from "./Envelope.ts"
import type * as Validation from "./internal/Validation.ts"
import { textInput } from "./PeerTools.ts"
import { SchemaChecks, validationOf } from "./SchemaChecks.ts"
import type { JsonSchema, Tool, ToolInput } from "./Tool.ts"

/** How many characters the arguments of a call, or a final answer, may have. */
const maxText = 1_048_576

/** How long a schema that has killed its thread is blocked for the same caller, in milliseconds. */
const restMs = 60_000
const maxPutAside = 1_000

/** Arguments that cannot be sent, and what is wrong. `input` is the object that they parse to, or else their text. */
export interface WrongInput {
  readonly input: ToolInput | string
  readonly message: string
}

const isObject = (value: Schema.Json): value is ToolInput =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What `JSON.parse` gives is JSON, if its numbers are finite. */
const isJson = (value: unknown): value is Schema.Json => JsonValue.problem(value) === undefined

/** Parses what a model wrote, or says why it cannot be used. */
const parseJson = (text: string): Result.Result<Schema.Json, string> => {
  if (text.length > maxText) return Result.fail(`It has more than ${maxText} characters`)
  const { problem } = JsonText.check(text)
  if (problem !== undefined) return Result.fail(problem)
  const parsed = Result.try(() => JSON.parse(text) as unknown)
  if (Result.isFailure(parsed)) return Result.fail("It is not valid JSON")
  const value = parsed.success
  return isJson(value) ? Result.succeed(value) : Result.fail(JsonValue.problem(value) ?? "")
}

const parseObject = (text: string): Result.Result<ToolInput, WrongInput> => {
  const refused = (why: string) => Result.fail({ input: text, message: `The arguments cannot be used. ${why}` })
  const parsed = parseJson(text.trim() === "" ? "{}" : text)
  if (Result.isFailure(parsed)) return refused(parsed.failure)
  return isObject(parsed.success) ? Result.succeed(parsed.success) : refused("It is not a JSON object")
}

/** Whether the schema is written by the gateway or by the app that embeds it. Any other one is a stranger's. */
const isOwn = ({ inputSchema, kind }: Tool): boolean =>
  kind === "local" || kind === "recipe" || inputSchema === textInput

const ownValidations = new WeakMap<JsonSchema, Validation.Validation>()

const checkOwn = (schema: JsonSchema, input: ToolInput): Validation.Verdict => {
  const validation = ownValidations.get(schema) ?? validationOf(JSON.stringify(schema))
  ownValidations.set(schema, validation)
  return validation.check(input)
}

/** What a schema says may quote long names of it. */
const maxProblem = 1_000
const cut = (problem: string): string => truncate(problem, maxProblem).text

const toResult = (verdict: Validation.Verdict, input: ToolInput): Result.Result<ToolInput, WrongInput> => {
  switch (verdict._tag) {
    case "Fits":
      return Result.succeed(input)
    case "Wrong":
      return Result.fail({ input, message: `The arguments do not match the schema. ${cut(verdict.issues.join("; "))}` })
    case "Unusable":
      return Result.fail({ input, message: `The schema of the tool cannot be used. ${cut(verdict.reason)}` })
  }
}

const toAnswer = (verdict: Validation.Verdict, value: Schema.Json): Result.Result<Schema.Json, string> => {
  switch (verdict._tag) {
    case "Fits":
      return Result.succeed(value)
    case "Wrong":
      return Result.fail(`It does not match the schema. ${cut(verdict.issues.join("; "))}`)
    case "Unusable":
      return Result.fail(`The schema cannot be used. ${cut(verdict.reason)}`)
  }
}

/**
 * Checks the arguments of calls, the structured content of results, and final answers. The schemas of peers and callers are compiled and run in a thread of their own, one call at a time, for 250 ms at
 * most. The callers take turns: none of them waits for all calls of another one.
 */
export class InputValidator extends Context.Service<
  InputValidator,
  {
    /** The arguments of a call as the model wrote them, parsed and matched with the schema of the tool, if there is one; or what is wrong, and where. */
    readonly parse: (
      caller: CallerName,
      tool: Tool | undefined,
      text: string
    ) => Effect.Effect<Result.Result<ToolInput, WrongInput>>
    /** The final answer of a plan as JSON that matches a schema of its caller; or what is wrong, and where. */
    readonly parseAnswer: (
      caller: CallerName,
      schema: JsonSchema,
      text: string
    ) => Effect.Effect<Result.Result<Schema.Json, string>>
    /** What is wrong with what a tool gave, by the schema that the tool has for it, if anything. */
    readonly outputProblem: (
      caller: CallerName,
      tool: string,
      schema: JsonSchema,
      output: Schema.Json
    ) => Effect.Effect<string | undefined>
  }
>()("@bowline/runtime/tool/InputValidator") {
  static readonly layer = Layer.effect(
    InputValidator,
    Effect.gen(function* () {
      const thread = yield* yield* SchemaChecks
      const turns = yield* PartitionedSemaphore.make<CallerName>({ permits: 1 })
      /** Until when a schema is blocked for a caller, in milliseconds of the `Monotonic` clock, and why. */
      const blocked = new LruCache<string, { readonly until: number; readonly verdict: Validation.Verdict }>(
        maxPutAside
      )

      const put = Effect.fnUntraced(function* (key: string, tool: string, reason: string) {
        const verdict: Validation.Verdict = { _tag: "Unusable", reason }
        blocked.set(key, { until: (yield* Monotonic.now) + restMs, verdict })
        yield* Effect.annotateLogs(Effect.logWarning("input_schema_blocked"), { tool, reason })
        return verdict
      })

      const checkForeign = Effect.fnUntraced(
        function* (
          caller: CallerName,
          { name, schema }: { readonly name: string; readonly schema: JsonSchema },
          value: Schema.Json
        ) {
          const candidate = { schema: JSON.stringify(schema), input: JSON.stringify(value) }
          const key = createHash("sha256").update(`${caller}\n${candidate.schema}`).digest("base64")
          const now = yield* Monotonic.now
          const known = blocked.peek(key)
          if (known !== undefined && known.until > now) return known.verdict
          return yield* Effect.catchTag(thread.check(candidate), "CheckEnded", ({ reason }) => put(key, name, reason))
        },
        (check, caller) => turns.withPermit(caller)(check)
      )

      return {
        parse: (caller, tool, text) =>
          Effect.suspend(() => {
            const parsed = parseObject(text)
            if (tool === undefined || Result.isFailure(parsed)) return Effect.succeed(parsed)
            const input = parsed.success
            const verdict = isOwn(tool)
              ? Effect.sync(() => checkOwn(tool.inputSchema, input))
              : checkForeign(caller, { name: tool.name, schema: tool.inputSchema }, input)
            return Effect.map(verdict, (verdict) => toResult(verdict, input))
          }),
        parseAnswer: (caller, schema, text) =>
          Effect.suspend(() => {
            const parsed = parseJson(text)
            if (Result.isFailure(parsed)) return Effect.succeed(parsed)
            const value = parsed.success
            const verdict = checkForeign(caller, { name: "response_format", schema }, value)
            return Effect.map(verdict, (verdict) => toAnswer(verdict, value))
          }),
        outputProblem: (caller, name, schema, output) =>
          Effect.map(checkForeign(caller, { name, schema }, output), (verdict) =>
            Option.getOrUndefined(Result.getFailure(toAnswer(verdict, output)))
          )
      }
    })
  )
}
