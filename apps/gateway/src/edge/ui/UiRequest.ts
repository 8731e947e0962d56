import type { Decision } from "@bowline/domain/plan/Approval"
import { AskRequest, type ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { ExternalSessionId } from "@bowline/domain/session/Session"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { UiOptions } from "@bowline/protocol/unstable/ui/UiApi"
import { Option, Predicate, Result, Schema } from "effect"
import type { Brought, GivenResult } from "../leg/ClientResults.ts"
import * as GivenFiles from "../question/GivenFiles.ts"
import { TaskId } from "@bowline/domain/tool/TaskState"

/** A call that the caller has decided about, and where the body says so. */
export interface Decided {
  readonly path: string
  readonly task_id: string
  readonly decision: Decision
  /** The caller does not answer: it is no fault if nothing waits for the answer any more. */
  readonly isCancelled: boolean
}

/** What the body of a UI library asks. Without a `request` it only decides about calls that wait. One that has `brought` results asks only if nothing waits for them. */
export interface UiRequest {
  readonly session: ExternalSessionId
  readonly request: AskRequest | undefined
  readonly decided: ReadonlyArray<Decided>
  /** The results of calls that the client has made. */
  readonly brought: Brought | undefined
  /** The tools of the page, if the body names any. */
  readonly tools: ReadonlyArray<ClientTool> | undefined
  /** Bowline's own options, as they were sent. */
  readonly named: Readonly<Record<string, unknown>>
  /** What is wrong with the plan, under the names of the body. */
  readonly renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
}

/** A decision is stored with a note of this length at most. */
export const Note = Schema.optionalKey(Schema.NullOr(Schema.String.check(Schema.isMaxLength(4_096))))

export const toDecision = (decision: Decision["decision"], note: string | null | undefined): Decision => ({
  decision,
  ...(typeof note === "string" && note !== "" && { note })
})

/** One message of a conversation. */
export interface Said extends GivenFiles.Spoken {
  readonly role: string
}

/** What a body says of a plan. */
interface Telling {
  readonly session: ExternalSessionId
  /** The last one is the question. */
  readonly said: ReadonlyArray<Said>
  readonly options: typeof UiOptions.Type | undefined
  /** The tools that the client runs. */
  readonly tools: ReadonlyArray<ClientTool>
  readonly renamed: UiRequest["renamed"]
  /** What else the instructions say. */
  readonly context?: ReadonlyArray<string>
  /** The caller asks although a plan of the session still waits for an answer. */
  readonly interrupts: boolean
}

/** How long a plan runs on when its client has gone: a page that is loaded again is back by then. */
const grace = { on_disconnect: "cancel", disconnect_grace_ms: 10_000 } as const

const decodePlan = Schema.decodeUnknownResult(Schema.toType(AskRequest), { errors: "all" })

/** The question as a plan, and how to name what is wrong with it. */
export const toPlan = ({ context = [], interrupts, options, said, session, tools, ...telling }: Telling) => {
  const { preferences, ...named } = options ?? { agents: [], mcp_servers: [], preferences: {} }
  const isInstruction = ({ role }: Said) => role === "system" || role === "developer"
  const instructions = [...said.filter(isInstruction).map(({ text }) => text.trim()), ...context].filter(
    (text) => text !== ""
  )
  const { asked, placed } = GivenFiles.conversation(
    said.at(-1) ?? { text: "" },
    said.slice(0, -1).flatMap(({ role, ...one }) => (role === "user" || role === "assistant" ? [{ role, ...one }] : []))
  )
  const renamed = placed(telling.renamed)
  const plan = decodePlan({
    ...named,
    tools,
    ...(tools.length > 0 && { legs: { parallel: true } }),
    ...asked,
    session_id: session,
    ...(instructions.length > 0 && { instructions: instructions.join("\n\n") }),
    metadata: {},
    preferences: { ...grace, on_busy: interrupts ? "interrupt" : "steer", ...preferences }
  })
  return Result.mapBoth(plan, {
    onFailure: (error) => renamed(fromSchema(error)),
    onSuccess: (request) => ({ request, renamed })
  })
}

/** Names the fields of a plan by those of a body, which has the session and Bowline's own options under these names. */
export const renaming =
  (session: string, options: string): UiRequest["renamed"] =>
  (issues) =>
    issues.map(({ message, path }) => ({
      path: path
        .replace(/^(?:question|history|instructions)\b.*/, "messages")
        .replace(/^session_id\b/, session)
        .replace(/^(?:preset|preferences|agents|mcp_servers)\b/, `${options}.$&`),
      message
    }))

const decodeOptions = Schema.decodeUnknownResult(UiOptions, { errors: "all", onExcessProperty: "error" })

/** Bowline's own options, strictly, and what is wrong with them. */
export const readOptions = (sent: unknown, path: string) => {
  if (sent === undefined || sent === null) return Result.succeed(undefined)
  return Result.mapError(decodeOptions(sent), (error) =>
    fromSchema(error).map((issue) => ({ ...issue, path: issue.path === "" ? path : `${path}.${issue.path}` }))
  )
}

/** The fields of Bowline's own options. */
export const namedIn = (options: unknown): UiRequest["named"] => (Predicate.isObject(options) ? { ...options } : {})

/** All that is wrong with the parts of a body. */
export const problemsOf = (
  ...parts: ReadonlyArray<Result.Result<unknown, ReadonlyArray<Issue>>>
): ReadonlyArray<Issue> => parts.flatMap((part) => Option.getOrElse(Result.getFailure(part), () => []))

const isTaskId = Schema.is(TaskId)

/** Results as they are brought to a plan: undefined if one is of a call that the gateway cannot have made. */
export const bring = (
  results: ReadonlyArray<Omit<GivenResult, "task_id"> & { readonly task_id: string }>,
  texts: Brought["texts"],
  tools: UiRequest["tools"]
): Brought | undefined => {
  const known = results.flatMap(({ task_id, ...result }) => (isTaskId(task_id) ? [{ ...result, task_id }] : []))
  return known.length === 0 || known.length < results.length
    ? undefined
    : { path: "messages", results: known, texts, tools }
}

/** The conversation with its last question at the end: for a plan that takes the place of one that is over. */
export const askedAgain = (said: ReadonlyArray<Said>): ReadonlyArray<Said> => {
  const last = said.findLastIndex(({ role }) => role === "user")
  const question = said[last]
  return question === undefined ? said : [...said.slice(0, last), question]
}
