import { TaskId } from "@bowline/domain/tool/TaskState"
import { Option, Schema } from "effect"
import { uuidOf } from "./InboxStore.ts"

/**
 * What is missing before a call, or before a plan's first step, and how that goes on: `account` null is a valid token of the caller, `task_id` null a plan that waits for
 * its server. `resumes` is by what the server knows the call that it has taken. It is stored as the mark of the wait.
 */
export const AccountWait = Schema.Struct({
  account: Schema.NullOr(Schema.String),
  task_id: Schema.NullOr(TaskId),
  resumes: Schema.optionalKey(Schema.String)
})
export type AccountWait = typeof AccountWait.Type

const Mark = Schema.fromJsonString(AccountWait)

export const toMark: (wait: AccountWait) => string = Schema.encodeSync(Mark)
const decodeMark = Schema.decodeUnknownOption(Mark)

/** What an account is waited for with, of a wait of that kind. */
export const ofMark = (mark: string | null): AccountWait =>
  Option.getOrElse(decodeMark(mark), () => ({ account: null, task_id: null }))

/** A call has one wait of its own. That for an account is beside it, under this id: so an answer that the call has got stays known while it waits to send it. */
export const waitOfCall = (call: TaskId): TaskId => TaskId.make(uuidOf(["account", call]))

/** The wait of a plan for a server that wants an account before it lists its tools. */
export const waitOfServer = (plan: string, server: string): TaskId => TaskId.make(uuidOf(["account", plan, server]))

/** What callers know a wait by: the call that waits, if one does. */
export const shownId = (wait: {
  readonly kind: string
  readonly task_id: TaskId
  readonly mark: string | null
}): TaskId => (wait.kind === "account" ? ofMark(wait.mark).task_id : null) ?? wait.task_id
