import type { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Effect, Result, Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import type { ConversationItems, Placed } from "./ConversationItems.ts"
import { decodeCompaction, leftOut, within } from "./ResponseInput.ts"

const Json = Schema.Record(Schema.String, Schema.Json)
type Json = typeof Json.Type

export const Input = Schema.Union([Schema.String, Schema.Array(Json).check(Schema.isMaxLength(1_000))]).annotate({
  message: "Expected a text, or a list of at most 1,000 items"
})

const McpCall = Schema.Struct({
  id: Schema.String,
  server_label: Schema.String,
  name: Schema.String,
  arguments: Schema.String,
  output: Schema.optionalKey(Schema.NullOr(Schema.String)),
  error: Schema.optionalKey(Schema.Json)
})
const decodeMcpCall = Schema.decodeUnknownResult(McpCall, { errors: "all" })
const isSummary = Schema.is(Schema.toType(PlanRequest.fields.prior_summary))

/** What says nothing that a later prompt needs. A decision stands in the call that follows it. */
const isLeftOut = (type: Schema.Json): type is string =>
  typeof type === "string" && type !== "reasoning" && (leftOut.has(type) || type === "mcp_approval_response")

const typeOf = (item: Json): Schema.Json => item["type"] ?? "message"

const isInstruction = (item: Json): boolean =>
  typeOf(item) === "message" && (item["role"] === "system" || item["role"] === "developer")

/** A call that a gateway has made, with its result, as that of a function: whoever goes on with it, it is not made again. */
const asFunction = ([path, item]: Placed) =>
  Result.mapBoth(decodeMcpCall(item), {
    onFailure: (error) => within(path, error),
    onSuccess: ({ arguments: written, error, id: call_id, name, output, server_label }): ReadonlyArray<Placed> => [
      [path, { type: "function_call", call_id, name: `${server_label}_${name}`, arguments: written }],
      [path, { type: "function_call_output", call_id, output: output ?? (error ? JSON.stringify(error) : "") }]
    ]
  })

/** Reads what is to be compacted. Fails with everything that is wrong with it, item by item. Its files are stored. */
export const make = (readItems: ConversationItems) =>
  Effect.fnUntraced(function* (caller: CallerName, input: typeof Input.Type) {
    const items = typeof input !== "string" ? input : input === "" ? [] : [{ role: "user", content: input }]
    const instructions: Array<Json> = []
    const summaries: Array<string> = []
    const ignored = new Set<string>()
    const read = items.map((item, index): ReturnType<typeof asFunction> => {
      const path = `input[${index}]`
      const type = typeOf(item)
      if (isInstruction(item)) {
        instructions.push(item)
        return Result.succeed([])
      }
      if (type === "compaction") {
        return Result.mapBoth(decodeCompaction(item), {
          onFailure: (error) => within(path, error),
          onSuccess: ({ encrypted_content }) => {
            summaries.push(encrypted_content)
            return []
          }
        })
      }
      if (type === "mcp_call") return asFunction([path, item])
      if (!isLeftOut(type)) return Result.succeed([[path, item]])
      ignored.add(`input[].${type}`)
      return Result.succeed([])
    })
    const issues = read.flatMap((result) => (Result.isFailure(result) ? result.failure : []))
    const summary = summaries.join("\n\n")
    if (!isSummary(summary))
      issues.push({ path: "input", message: "Expected compactions of at most 100,000 characters" })
    if (issues.length > 0) return yield* invalid(issues)
    const messages = yield* readItems(
      caller,
      read.flatMap((result) => (Result.isSuccess(result) ? result.success : []))
    )
    return { ignored: [...ignored], instructions, messages, summary }
  })
