import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { SentMessage } from "@bowline/a2a/unstable/server/SentMessage"
import { type Asked, keyOf } from "@bowline/a2a/unstable/server/TaskFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { AnswerEntry, type NewEntry, ResultEntry } from "@bowline/domain/plan/Inbox"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { Inbox } from "@bowline/runtime/plan/Inbox"
import type * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import { formatPath, fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { Effect, Result, Schema, Struct } from "effect"
import { open, type OpenTask, type Services } from "./TaskReader.ts"
import { filesOf, hasFiles, textsOf } from "./TaskRequest.ts"

/** Names the call that a part of data is for. */
const isForCall = Schema.is(
  Schema.StructWithRest(Schema.Struct({ task_id: TaskId }), [Schema.Record(Schema.String, Schema.Json)])
)

const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })
const decodeResult = decoder(ResultEntry.mapFields(Struct.omit(["type"])))
const decodeAnswer = decoder(AnswerEntry.mapFields(Struct.omit(["type"])))

/** What messages are sent with. It takes their files in, too. */
export type Senders = Services &
  Effect.Success<typeof QuestionFiles.make> & {
    readonly inbox: Inbox["Service"]
  }

/** An entry, what it settles, and the part of the message that says it. */
interface Said {
  readonly entry: NewEntry
  readonly asked?: Asked
  readonly path: string
}

const read = (data: Schema.Json, index: number, asks: ReadonlyArray<Asked>): Result.Result<Said, A2aError> => {
  const path = `message.parts[${index}].data`
  const asked = asks.find(({ task_id }) => isForCall(data) && data.task_id === task_id)
  const isResult = asked === undefined ? isForCall(data) && "content" in data : asked.kind === "result"
  const entry: Result.Result<NewEntry, Schema.SchemaError> = isResult
    ? Result.map(decodeResult(data), (fields) => ({ type: "result", ...fields }))
    : Result.map(decodeAnswer(data), (fields) => ({ type: "answer", ...fields }))
  return Result.mapBoth(entry, {
    onFailure: (error) =>
      invalidParams(fromSchema(error).map((issue) => ({ ...issue, path: `${path}${issue.path && `.${issue.path}`}` }))),
    onSuccess: (entry) => ({ entry, path, ...(asked !== undefined && { asked }) })
  })
}

/**
 * What a message says to calls that wait: each part of data, which names its call; or a plain text, which answers the question that has waited for the
 * longest time. A text is one for the plan where only results are awaited, and beside data. Undefined of a message that is for no call.
 */
const saidOf = (
  message: SentMessage,
  { fold: { approvals, asks } }: OpenTask
): Result.Result<ReadonlyArray<Said>, A2aError> | undefined => {
  const isForCalls = message.parts.every((part) => part._tag === "Data" && isForCall(part.data))
  if (isForCalls && (approvals.length === 0 || asks.length > 0)) return readAll(message, asks)
  if (approvals.length > 0 || asks.length === 0) return undefined
  const text = textsOf(message).join("\n\n")
  const said: Said = { entry: { type: "text", text, when: "boundary", else: "ask" }, path: "message.parts" }
  const isPlain = message.parts.every(({ _tag }) => _tag !== "Data")
  const asked = isPlain ? asks.find(({ kind }) => kind === "answer") : undefined
  if (asked !== undefined) {
    const { round, task_id } = asked
    return Result.succeed([{ ...said, entry: { type: "answer", task_id, round, text }, asked }])
  }
  const wrong = message.parts.flatMap((part, index) =>
    part._tag === "Data" && !isForCall(part.data)
      ? [{ path: `message.parts[${index}].data.task_id`, message: named }]
      : []
  )
  if (wrong.length > 0) return Result.fail(invalidParams(wrong))
  // In front of the results: the plan cannot go on without them.
  return Result.map(readAll(message, asks), (read) => (text === "" && !hasFiles(message) ? read : [said, ...read]))
}

const named = "Expected the task_id of a call that waits"

const readAll = ({ parts }: SentMessage, asks: ReadonlyArray<Asked>): Result.Result<ReadonlyArray<Said>, A2aError> =>
  Result.all(parts.flatMap((part, index) => (part._tag === "Data" ? [read(part.data, index, asks)] : [])))

/** The text of a message with its files, which are stored now. One of files alone has their lines. */
const withFiles = Effect.fnUntraced(function* (
  { takeQuestion }: Senders,
  caller: CallerName,
  message: SentMessage,
  entry: NewEntry
) {
  const placed = filesOf(message)
  if (entry.type !== "text" || placed.length === 0) return entry
  const { question, question_parts = [] } = yield* takeQuestion(
    caller,
    placed.map(({ part }) => part)
  ).pipe(
    Effect.catchTag("InvalidRequest", ({ issues }) =>
      Effect.fail(
        invalidParams(
          issues.map(({ message, path: [, index] }) => ({
            path: placed[Number(index)]?.path ?? "message.parts",
            message
          }))
        )
      )
    )
  )
  const files = question_parts.flatMap((part) => (part.type === "file" ? [part.file_id] : []))
  return { ...entry, text: entry.text === "" ? question : entry.text, files }
})

/** Says to the plan what the message answers, each part once however often the message comes, and gives the task as it is behind that. Undefined if the message answers nothing. */
export const answer = Effect.fnUntraced(function* (services: Senders, opened: OpenTask, message: SentMessage) {
  const found = saidOf(message, opened)
  if (found === undefined) return undefined
  const said = yield* Effect.fromResult(found)
  const { caller, plan, task } = opened
  for (const [index, { entry: given, path }] of said.entries()) {
    const entry = yield* withFiles(services, caller, message, given)
    const key = `A2A ${message.messageId} ${index}`
    yield* services.inbox.accept({ caller, isAdmin: false }, plan.plan.plan_id, entry, key).pipe(
      Effect.catchTags({
        InvalidRequest: ({ issues }) =>
          Effect.fail(
            invalidParams(issues.map(({ message, path: field }) => ({ path: `${path}.${formatPath(field)}`, message })))
          ),
        NotFound: () =>
          Effect.fail(invalidParams([{ path: `${path}.task_id`, message: "Expected a call that waits" }])),
        EntryRefused: ({ message }) => Effect.fail(new A2aError({ error: "UnsupportedOperation", message })),
        IdempotencyConflict: () =>
          Effect.fail(
            invalidParams([
              { path: "message.messageId", message: "Expected the content that it came with before, or another id" }
            ])
          )
      })
    )
  }
  return yield* open(services, caller, task, { decided: said.flatMap(({ asked }) => (asked ? [keyOf(asked)] : [])) })
})
