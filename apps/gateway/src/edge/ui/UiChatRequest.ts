import { ExternalSessionId } from "@bowline/domain/session/Session"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Result, Schema } from "effect"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { Brought } from "../leg/ClientResults.ts"
import { given } from "../openai/ChatSampling.ts"
import * as GivenFiles from "../question/GivenFiles.ts"
import {
  askedAgain,
  bring,
  type Decided,
  namedIn,
  Note,
  problemsOf,
  readOptions,
  renaming,
  type Said,
  toDecision,
  toPlan,
  type UiRequest
} from "./UiRequest.ts"

/** A part of a message: what the planner has done itself is of no interest here, but for approvals. */
const Part = Schema.Struct({
  type: Schema.String,
  text: Schema.optionalKey(Schema.String),
  url: Schema.optionalKey(Schema.String),
  mediaType: Schema.optionalKey(Schema.String),
  filename: given(Schema.String),
  state: Schema.optionalKey(Schema.String),
  toolCallId: Schema.optionalKey(Schema.String),
  providerExecuted: Schema.optionalKey(Schema.Boolean),
  output: Schema.optionalKey(Schema.Json),
  errorText: Schema.optionalKey(Schema.String),
  approval: Schema.optionalKey(Schema.Unknown)
}).check(
  Schema.makeFilter(({ text, type }) =>
    type !== "text" || text !== undefined ? undefined : { path: ["text"], issue: "This field is required" }
  )
)

const Message = Schema.Struct({
  id: Schema.String.check(Schema.isMaxLength(256)),
  role: Schema.Literals(["system", "user", "assistant"]),
  parts: Schema.Array(Part)
}).check(
  Schema.makeFilter(({ parts, role }) =>
    role === "assistant"
      ? []
      : parts.flatMap(({ type, url = "" }, index) => {
          if (type !== "file") return []
          if (role !== "user") return [{ path: ["parts", index, "type"], issue: "Expected text: files are the user's" }]
          const issue = GivenFiles.urlProblem(url)
          return issue === undefined ? [] : [{ path: ["parts", index, "url"], issue }]
        })
  )
)
type Message = typeof Message.Type

const Body = Schema.Struct({
  id: ExternalSessionId,
  messages: Schema.Array(Message).check(Schema.isMaxLength(1_000)),
  tools: given(PlanRequest.fields.tools),
  trigger: given(Schema.Literals(["submit-message", "regenerate-message"])),
  messageId: given(Schema.String)
})

const Approval = Schema.Struct({ id: Schema.String, approved: Schema.Boolean, reason: Note })

const decodeBody = Schema.decodeUnknownResult(Body, { errors: "all" })
const decodeApproval = Schema.decodeUnknownResult(Approval, { errors: "all" })

/** A request of the AI SDK. */
export interface UiChatRequest extends UiRequest {
  /** The client's id of the last message. */
  readonly messageId: string
  /** The question takes the place of what was asked, or answered, under its id before. */
  readonly isAgain: boolean
}

/** A message of the history or the question. What the planner has made of files itself is in the session. */
const toSaid = ({ parts, role }: Message, message: number): Said => {
  const placed = parts.flatMap(
    ({ filename: name, mediaType, text, type, url }, index): ReadonlyArray<GivenFiles.Placed> => {
      const path = `messages[${message}].parts[${index}]`
      if (type === "text" && text !== undefined) return [{ part: { type, text }, path }]
      if (role !== "user" || type !== "file" || url === undefined) return []
      return [{ part: GivenFiles.fromUrl(url, { name, type: mediaType }), path: `${path}.url` }]
    }
  )
  return { role, ...GivenFiles.spoken(placed) }
}

/** The approvals of a message that its user has answered. */
const readDecided = (message: Message, index: number): Result.Result<ReadonlyArray<Decided>, ReadonlyArray<Issue>> => {
  const read = message.parts.flatMap(({ approval, state }, part) => {
    if (state !== "approval-responded") return []
    const path = `messages[${index}].parts[${part}].approval`
    return [
      Result.mapBoth(decodeApproval(approval), {
        onFailure: (error) => fromSchema(error).map((issue) => ({ ...issue, path: `${path}.${issue.path}` })),
        onSuccess: ({ approved, id, reason }): Decided => {
          const decision = toDecision(approved ? "approve" : "reject", reason)
          return { path: `${path}.id`, task_id: id, decision, isCancelled: false }
        }
      })
    ]
  })
  const issues = problemsOf(...read)
  return issues.length > 0
    ? Result.fail(issues)
    : Result.succeed(read.flatMap((one) => (Result.isSuccess(one) ? [one.success] : [])))
}

/** The results of the calls that the client has made itself: those of the last step of this message. The user says the `texts` behind it. */
const broughtBy = (
  { parts }: Message,
  index: number,
  texts: Brought["texts"],
  tools: UiRequest["tools"]
): Brought | undefined => {
  const from = parts.findLastIndex(({ type }) => type === "step-start") + 1
  return bring(
    parts.slice(from).flatMap((part, at) => {
      const { errorText, output, providerExecuted, state, toolCallId = "" } = part
      if (providerExecuted === true) return []
      const call = { path: `messages[${index}].parts[${from + at}].output`, task_id: toolCallId }
      if (state === "output-available") return [{ ...call, content: output ?? null }]
      return state === "output-error" ? [{ ...call, content: errorText ?? "", is_error: true }] : []
    }),
    texts,
    tools
  )
}

const noQuestion: Issue = {
  path: "messages",
  message:
    "Expected the user's message, which is the question, an answer to an approval, or results of tools, in the last one"
}

/** Whether the user goes on without an answer to an approval, or the result of a call. */
const leavesOpen = (messages: ReadonlyArray<Message>): boolean => {
  const last = messages.findLast(({ role }) => role === "assistant")
  const isOpen = ({ providerExecuted, state }: Message["parts"][number]) =>
    state === "approval-requested" || (state === "input-available" && providerExecuted !== true)
  return last?.parts.some(isOpen) === true
}

/** Reads a body. Fails with everything that is wrong with it, field by field. */
export const decode = (sent: Readonly<Record<string, unknown>>): Result.Result<UiChatRequest, ReadonlyArray<Issue>> => {
  const body = Result.mapError(decodeBody(sent), fromSchema)
  const options = readOptions(sent["bowline"], "bowline")
  if (Result.isFailure(body) || Result.isFailure(options)) return Result.fail(problemsOf(body, options))
  const { id: session, messageId = null, messages, trigger } = body.success
  const renamed = renaming("id", "bowline")
  const last = messages.at(-1)
  if (last === undefined) return Result.fail([noQuestion])
  const isAgain = trigger === "regenerate-message" || messageId === last.id
  const tools = body.success.tools ?? undefined
  const common = { session, tools, renamed, messageId: last.id, named: namedIn(sent["bowline"]) }
  const said = messages.map(toSaid)
  const told = { session, options: options.success, renamed, tools: tools ?? [] }
  if (last.role !== "user") {
    const decided = last.role === "assistant" ? readDecided(last, messages.length - 1) : Result.succeed([])
    const brought = last.role === "assistant" ? broughtBy(last, messages.length - 1, [], tools) : undefined
    return Result.flatMap(decided, (decided) => {
      if ((decided.length === 0 && brought === undefined) || trigger === "regenerate-message") {
        return Result.fail([noQuestion])
      }
      const rest = { ...common, decided, brought, isAgain: false }
      if (brought === undefined) return Result.succeed({ ...rest, request: undefined })
      const plan = toPlan({ ...told, said: askedAgain(said), interrupts: false })
      return Result.map(plan, (asked): UiChatRequest => ({ ...rest, ...asked }))
    })
  }
  const interrupts = leavesOpen(messages)
  const plan = toPlan({ ...told, said, interrupts })
  const before = messages.at(-2)
  const brings = before?.role === "assistant" && !interrupts && !isAgain
  const brought = brings ? broughtBy(before, messages.length - 2, said.slice(-1), tools) : undefined
  return Result.map(plan, (asked): UiChatRequest => ({ ...common, ...asked, decided: [], brought, isAgain }))
}
