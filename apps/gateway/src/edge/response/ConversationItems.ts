import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Message, MessagePart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import { Effect, Option, Result, Schema } from "effect"
import { createHash } from "node:crypto"
import { invalid } from "../../http/Refusals.ts"
import { placedIn, taskOf } from "../leg/ClientResults.ts"
import type * as GivenFiles from "../question/GivenFiles.ts"
import { decodeCall, decodeMessage, decodeOutput, spokenAt, spokenIn, within } from "./ResponseInput.ts"

type Json = Readonly<Record<string, Schema.Json>>

/** A message of a conversation, of which the files are still to be taken. */
interface Told {
  readonly role: Message["role"]
  readonly parts: ReadonlyArray<MessagePart>
  readonly files?: ReadonlyArray<GivenFiles.Placed>
}

type Read = Result.Result<Told, ReadonlyArray<Issue>>

const decodeInput = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

const Reasoning = Schema.Struct({
  summary: Schema.optionalKey(Schema.Array(Schema.Struct({ text: Schema.String })))
})
const decodeReasoning = Schema.decodeUnknownResult(Reasoning, { errors: "all" })

/** A call of a plan by its task, and each other one by a task that follows from what its client calls it. */
const taskFor = (call_id: string): TaskId =>
  Option.getOrElse(taskOf(call_id), () => {
    const digits = createHash("sha256").update(call_id).digest("hex")
    return TaskId.make(digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5"))
  })

const readMessage = (item: Json, path: string): Read => {
  const refuse = (field: string, message: string) => Result.fail([{ path: `${path}.${field}`, message }])
  return decodeMessage(item).pipe(
    Result.mapError((error) => within(path, error)),
    Result.flatMap((message) => {
      const { role } = message
      const { parts: files, text } = spokenIn(message, path)
      if (role !== "user" && role !== "assistant") {
        return refuse("role", "Expected user or assistant: send instructions with a response")
      }
      if (files !== undefined) return Result.succeed({ role, parts: [], files })
      return text.trim() === "" ? refuse("content", "Expected a text") : Result.succeed({ role, parts: [textOf(text)] })
    })
  )
}

const textOf = (text: string) => ({ type: "text" as const, text })

/** An item, and where it stands in the body. */
export type Placed = readonly [path: string, item: Json]

const readItem = ([path, item]: Placed): Read => {
  switch (item["type"] ?? "message") {
    case "message":
      return readMessage(item, path)
    case "function_call":
      return Result.mapBoth(decodeCall(item), {
        onFailure: (error) => within(path, error),
        onSuccess: ({ arguments: written, call_id, name: tool }): Told => {
          const input = decodeInput(written)
          const raw = Option.isNone(input) && { raw_input: written }
          const call = { type: "tool_call" as const, task_id: taskFor(call_id), call_id, tool }
          return { role: "assistant", parts: [{ ...call, input: Option.getOrElse(input, () => ({})), ...raw }] }
        }
      })
    case "function_call_output":
      return decodeOutput(item).pipe(
        Result.mapError((error) => within(path, error)),
        Result.flatMap(({ call_id, output }): Read => {
          const { parts: files, text: content } = spokenAt(output, `${path}.output`)
          const result = { type: "tool_result" as const, task_id: taskFor(call_id), call_id }
          const parts = [{ ...result, state: "completed" as const, content }]
          return Result.succeed({ role: "tool", parts, ...(files && { files }) })
        })
      )
    case "reasoning":
      return Result.mapBoth(decodeReasoning(item), {
        onFailure: (error) => within(path, error),
        onSuccess: ({ summary = [] }): Told => {
          const text = summary.map(({ text }) => text).join("\n\n")
          return { role: "assistant", parts: [{ type: "reasoning", text }] }
        }
      })
    default: {
      const message =
        "Expected message, function_call, function_call_output or reasoning: other items come with responses"
      return Result.fail([{ path: `${path}.type`, message }])
    }
  }
}

/** Reads items as messages of a session. Fails with everything that is wrong with them, item by item. Their files are stored. */
export const make = Effect.gen(function* () {
  const { takeQuestion } = yield* QuestionFiles.make
  return Effect.fnUntraced(function* (caller: CallerName, items: ReadonlyArray<Placed>) {
    const results = items.map(readItem)
    const issues = results.flatMap((result) => (Result.isFailure(result) ? result.failure : []))
    if (issues.length > 0) return yield* invalid(issues)
    const told = results.flatMap((result) => Option.toArray(Result.getSuccess(result)))
    return yield* Effect.forEach(
      told,
      Effect.fnUntraced(function* ({ files, parts, role }) {
        if (files === undefined) return { role, parts }
        const { question, question_parts = [textOf(question)] } = yield* takeQuestion(
          caller,
          files.map(({ part }) => part)
        ).pipe(Effect.catchTag("InvalidRequest", ({ issues }) => Effect.fail(invalid(issues.map(placedIn(files))))))
        // A result has its files behind it, and their lines in its text, as those of plans have.
        const [result] = parts
        if (result?.type !== "tool_result") return { role, parts: question_parts }
        return {
          role,
          parts: [{ ...result, content: question }, ...question_parts.filter(({ type }) => type === "file")]
        }
      })
    )
  })
})
export type ConversationItems = Effect.Success<typeof make>
