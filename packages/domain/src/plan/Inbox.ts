import { Effect, Schema } from "effect"
import { maxFiles } from "../file/QuestionPart.ts"
import { FileId } from "../file/StoredFile.ts"
import { CallerName } from "../caller/CallerName.ts"
import { SessionId } from "../session/Session.ts"
import { TaskId } from "../tool/TaskState.ts"
import { ApprovalReason, Decision } from "./Approval.ts"
import { EntryId } from "./Outcome.ts"
import { PlanId } from "./Plan.ts"

/**
 * How many characters the text of one entry may have.
 *
 * @example
 * ```ts
 * import { maxText, maxTexts } from "@bowline/domain/plan/Inbox"
 *
 * export const fits = (text: string, open: ReadonlyArray<string>): boolean =>
 *   text.length <= maxText &&
 *   open.length < maxTexts.count &&
 *   open.join("").length + text.length <= maxTexts.characters
 * ```
 */
export const maxText = 200_000
/** How many texts a plan may have that it has not taken yet, and how many characters all of them. */
export const maxTexts = { count: 100, characters: 400_000 } as const

/**
 * What a caller adds while the plan works: at the next step `boundary`, or `now`, in place of what the provider is answering. `files` are stored ones, which the model gets
 * behind the text.
 */
export const TextEntry = Schema.Struct({
  type: Schema.tag("text"),
  text: Schema.String.check(
    Schema.makeFilter((text) => text.trim() !== "" || "Expected a text that is not blank"),
    Schema.isMaxLength(maxText)
  ),
  files: Schema.optionalKey(Schema.Array(FileId).check(Schema.isBetweenLength(1, maxFiles))),
  when: Schema.Literals(["boundary", "now"]).pipe(Schema.withDecodingDefaultKey(Effect.succeed("boundary" as const))),
  else: Schema.Literals(["ask", "reject"]).pipe(Schema.withDecodingDefaultKey(Effect.succeed("ask" as const)))
})
export type TextEntry = typeof TextEntry.Type

/** The result of a call of a tool that the client runs. With `is_error` it says why the call has failed. A list of parts as those of a question, some of them files, is taken as such. */
export const ResultEntry = Schema.Struct({
  type: Schema.tag("result"),
  task_id: TaskId,
  content: Schema.Json,
  is_error: Schema.optionalKey(Schema.Boolean)
})
export type ResultEntry = typeof ResultEntry.Type

/** The answer to a peer or an MCP server that asks. Without a `round` it answers the question that waits now. */
export const AnswerEntry = Schema.Struct({
  type: Schema.tag("answer"),
  task_id: TaskId,
  round: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  text: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, maxText))),
  data: Schema.optionalKey(Schema.Json),
  action: Schema.optionalKey(Schema.Literals(["accept", "decline", "cancel"]))
})
export type AnswerEntry = typeof AnswerEntry.Type

/** A decision about a call. `input` are other arguments, which are called in place of the model's. */
export const DecisionEntry = Schema.Struct({
  type: Schema.tag("decision"),
  task_id: TaskId,
  ...Decision.fields,
  input: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  remember: Schema.optionalKey(Schema.Literals(["plan", "session"]))
})
export type DecisionEntry = typeof DecisionEntry.Type

/**
 * What may be said to a plan: the body of `POST /plans/{id}/inbox`.
 *
 * @example
 * ```ts
 * import { NewEntry } from "@bowline/domain/plan/Inbox"
 * import { Schema } from "effect"
 *
 * const entry = Schema.decodeUnknownSync(NewEntry)({ type: "text", text: "Only the boats in the harbour." })
 * console.log(entry.type === "text" && entry.when)
 * ```
 */
export const NewEntry = Schema.Union([TextEntry, ResultEntry, AnswerEntry, DecisionEntry])
export type NewEntry = typeof NewEntry.Type

/** An entry that settles what a call waits for. */
export type Settling = Exclude<NewEntry, TextEntry>

/** What has become of an entry: each one is accepted, and then one of the others. */
export const EntryState = Schema.Literals(["accepted", "taken", "moved", "untaken", "withdrawn"])
export type EntryState = typeof EntryState.Type

/** An entry of a plan's inbox. `at` is ISO 8601 in UTC. `step` is the one that read a text, `moved_to` the plan whose question it became. */
export const Entry = Schema.Struct({
  entry_id: EntryId,
  type: Schema.Literals(["text", "result", "answer", "decision", "account"]),
  by: CallerName,
  at: Schema.String,
  state: EntryState,
  task_id: Schema.NullOr(TaskId),
  step: Schema.NullOr(Schema.Int),
  moved_to: Schema.NullOr(PlanId),
  text: Schema.NullOr(Schema.String)
})
export type Entry = typeof Entry.Type

/** What a call can wait for: a decision about it, the result of a tool of the client, an answer to whom it asks, or an account. */
export const WaitKind = Schema.Literals(["approval", "result", "answer", "account"])
export type WaitKind = typeof WaitKind.Type

/**
 * What waits for somebody. `message` and `data` are what a peer or server has said, `url` where it sends the person. Where a plan waits for an account in front of its first
 * step, `task_id` is no call's, and `tool` is the name of the server. Times are ISO 8601 in UTC.
 */
export const Waiting = Schema.Struct({
  plan_id: PlanId,
  session_id: SessionId,
  task_id: TaskId,
  kind: WaitKind,
  tool: Schema.String,
  agent: Schema.NullOr(Schema.String),
  input: Schema.Json,
  why: Schema.NullOr(ApprovalReason),
  message: Schema.NullOr(Schema.String),
  data: Schema.NullOr(Schema.Json),
  url: Schema.NullOr(Schema.String),
  since: Schema.String,
  expires_at: Schema.String,
  caller: CallerName
})
export type Waiting = typeof Waiting.Type
