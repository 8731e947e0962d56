import type { CallerName } from "@bowline/domain/caller/CallerName"
import * as JsonText from "@bowline/domain/json/JsonText"
import * as JsonValue from "@bowline/domain/json/JsonValue"
import { Clock, Context, Effect, Layer, PartitionedSemaphore, Result } from "effect"
import { createHash } from "node:crypto"
import * as Validation from "./internal/Validation.ts"
import * as ValidationThread from "./internal/ValidationThread.ts"
import { textInput } from "./PeerTools.ts"
import type { JsonSchema, Tool, ToolInput } from "./Tool.ts"

/** How many characters the arguments of a call may have. */
const maxInput = 1_048_576

/** A schema that has ended its thread is not tried again for the same caller, for so many milliseconds. */
const restMs = 60_000
const maxPutAside = 1_000

/** Arguments that cannot be sent: the object that they are or else their text, and what is wrong. */
export interface WrongInput {
  readonly input: ToolInput | string
  readonly message: string
}

const isObject = (value: unknown): value is ToolInput =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parseObject = (text: string): Result.Result<ToolInput, WrongInput> => {
  const refused = (message: string) => Result.fail({ input: text, message })
  if (text.length > maxInput) return refused(`The arguments have more than ${maxInput} characters`)
  const { problem } = JsonText.check(text)
  if (problem !== undefined) return refused(`The arguments cannot be used. ${problem}`)
  const parsed = Result.try(() => (text.trim() === "" ? {} : (JSON.parse(text) as unknown)))
  if (Result.isFailure(parsed)) return refused("The arguments are not valid JSON")
  const input = parsed.success
  if (!isObject(input)) return refused("The arguments are not a JSON object")
  const unfit = JsonValue.problem(input)
  return unfit === undefined
    ? Result.succeed(input)
    : Result.fail({ input, message: `The arguments cannot be used. ${unfit}` })
}

/** Whether the schema is written by the gateway or by the app that embeds it. Any other one is a stranger's. */
const isOwn = ({ inputSchema, kind }: Tool): boolean => kind === "local" || inputSchema === textInput

const ownValidations = new WeakMap<JsonSchema, Validation.Validation>()

const checkOwn = (schema: JsonSchema, input: ToolInput): Validation.Verdict => {
  const validation = ownValidations.get(schema) ?? Validation.make(schema)
  ownValidations.set(schema, validation)
  return validation.check(input)
}

const toResult = (verdict: Validation.Verdict, input: ToolInput): Result.Result<ToolInput, WrongInput> => {
  switch (verdict._tag) {
    case "Fits":
      return Result.succeed(input)
    case "Wrong":
      return Result.fail({ input, message: `The arguments do not match the schema. ${verdict.issues.join("; ")}` })
    case "Unusable":
      return Result.fail({ input, message: `The schema of the tool cannot be used. ${verdict.reason}` })
  }
}

/**
 * Checks the arguments of calls. The schemas of peers and callers are compiled and run in a thread of their own, one call at a time, for 250 ms at
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
  }
>()("@bowline/runtime/tool/InputValidator") {
  static readonly layer = Layer.effect(
    InputValidator,
    Effect.gen(function* () {
      const thread = yield* ValidationThread.make
      const turns = yield* PartitionedSemaphore.make<CallerName>({ permits: 1 })
      /** Until when a schema is put aside for a caller, in milliseconds since 1970, and why. */
      const putAside = new Map<string, { readonly until: number; readonly verdict: Validation.Verdict }>()

      const put = Effect.fnUntraced(function* (key: string, tool: string, reason: string) {
        const verdict: Validation.Verdict = { _tag: "Unusable", reason }
        putAside.delete(key)
        putAside.set(key, { until: (yield* Clock.currentTimeMillis) + restMs, verdict })
        const oldest = putAside.keys().next()
        if (putAside.size > maxPutAside && oldest.done !== true) putAside.delete(oldest.value)
        yield* Effect.annotateLogs(Effect.logWarning("input_schema_put_aside"), { tool, reason })
        return verdict
      })

      const checkForeign = Effect.fnUntraced(function* (caller: CallerName, tool: Tool, input: ToolInput) {
        const candidate = { schema: JSON.stringify(tool.inputSchema), input: JSON.stringify(input) }
        const key = createHash("sha256").update(`${caller}\n${candidate.schema}`).digest("base64")
        const now = yield* Clock.currentTimeMillis
        const known = putAside.get(key)
        if (known !== undefined && known.until > now) return known.verdict
        return yield* Effect.catchTag(thread.check(candidate), "CheckEnded", ({ reason }) =>
          put(key, tool.name, reason)
        )
      })

      return {
        parse: (caller, tool, text) =>
          Effect.suspend(() => {
            const parsed = parseObject(text)
            if (tool === undefined || Result.isFailure(parsed)) return Effect.succeed(parsed)
            const input = parsed.success
            const verdict = isOwn(tool)
              ? Effect.sync(() => checkOwn(tool.inputSchema, input))
              : turns.withPermit(caller)(checkForeign(caller, tool, input))
            return Effect.map(verdict, (verdict) => toResult(verdict, input))
          })
      }
    })
  )
}
