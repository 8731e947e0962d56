import type { Failure, Json, PlanView, TaskView } from "@bowline/client"
import { counted, firstLine, span } from "../text/Format.ts"

/** What a plan that did not complete ended of. */
export interface Culprit {
  /** Who, what, how long, with what was tried. */
  readonly sentence: string
  /** The row of the timeline that shows it. */
  readonly row: string | undefined
  /** Whether the row failed, so that it is opened; a plan that somebody cancelled has none such. */
  readonly isFault: boolean
  /** The page that shows more of the one who failed. */
  readonly place: { readonly href: "/credentials" | "/peers"; readonly label: string } | undefined
  /** The page of the documentation that treats it. */
  readonly docs: string
}

/** When the plan began and what time it had, in epoch milliseconds. */
export interface Times {
  readonly startedAt: number
  readonly endedAt: number
  readonly deadlineAt: number
}

type Place = Culprit["place"]

const longest = 300

const text = (value: Json | undefined): string | undefined => (typeof value === "string" ? value : undefined)

/** A sentence of somebody else, as the end of one of ours. */
const quoted = (message: string): string => {
  const said = firstLine(message, longest)
  return said === "" ? "." : /[.!?…]$/.test(said) ? `: ${said}` : `: ${said}.`
}

const byWhom = ({ agent, kind }: TaskView): string =>
  agent === null ? "" : ` (${kind === "mcp" ? "MCP server" : "peer"} ${agent})`

const placeOf = (task: TaskView | undefined): Place =>
  task?.agent == null
    ? undefined
    : { href: "/peers", label: `${task.kind === "mcp" ? "MCP server" : "Peer"} ${task.agent}` }

const docsOf = (task: TaskView | undefined): string => (task?.kind === "mcp" ? "mcp-server-fails" : "peer-fails")

const lastAttempt = (view: PlanView) => {
  const step = view.steps.at(-1)
  const attempt = step?.attempts.at(-1)
  return step === undefined || attempt === undefined
    ? undefined
    : { ...attempt, step: step.step, row: `attempt-${step.step}-${attempt.attempt}` }
}

/** What the plan was waiting for when it was ended from outside: a clause behind "while". */
const waiting = (view: PlanView, { data, stage }: Failure, { endedAt, startedAt }: Times) => {
  const none = { place: undefined, row: undefined, docs: undefined }
  const last = lastAttempt(view)
  switch (stage) {
    case "tool": {
      const open = view.tasks.filter(({ state }) => state === "interrupted").sort((a, b) => a.startedAt - b.startedAt)
      const task = open[0]
      if (task === undefined) return { ...none, words: `${text(data?.["tool"]) ?? "a tool"} had not answered` }
      const others = open.length === 1 ? "" : `, nor ${counted(open.length - 1, "other call")}`
      const words = `${task.tool}${byWhom(task)} had not answered for ${span(endedAt - task.startedAt)}${others}`
      return { words, row: `task-${task.taskId}`, place: placeOf(task), docs: docsOf(task) }
    }
    case "provider": {
      const from = last?.startedAt ?? startedAt
      const begun = last === undefined || last.firstTokenAt === null ? "begun to answer" : "finished its answer"
      const tried = view.retries === 0 ? "" : `, after ${counted(view.retries, "retry", "retries")}`
      const words = `${view.model ?? "the provider"} had not ${begun} for ${span(endedAt - from)}${tried}`
      return { ...none, words, row: last?.row, docs: "provider-fails" }
    }
    case "backoff": {
      const why =
        last?.error == null
          ? ""
          : `: it had failed with ${last.error.code}${quoted(last.error.message).replace(/\.$/, "")}`
      const words = `the gateway waited to ask ${view.model ?? "the provider"} again${why}`
      return { ...none, words, row: last?.row, docs: "provider-fails" }
    }
    case "approval": {
      const asked = view.approvals.find(({ decision }) => decision === null)
      const words =
        asked === undefined
          ? "it waited for a decision"
          : `nobody had decided about ${asked.tool} for ${span(endedAt - asked.startedAt)}`
      return {
        ...none,
        words,
        row: asked === undefined ? undefined : `approval-${asked.taskId}`,
        docs: "approvals-wait"
      }
    }
    case "client":
      return { ...none, words: "it waited for somebody to answer", docs: "approvals-wait" }
    case "queue":
      return { ...none, words: "another plan of its session ran", row: view.queue === null ? undefined : "queue" }
    case "compaction":
      return { ...none, words: "its history was being summarised", docs: "provider-fails" }
    case null:
      return { ...none, words: "" }
  }
}

const aborts: Readonly<Record<string, string>> = {
  disconnect: "Nobody read it any more",
  cancelled: "Somebody cancelled it",
  superseded: "A newer plan of the session took its place",
  shutdown: "The gateway shut down"
}

const ofAbort = (view: PlanView, error: Failure, times: Times): Culprit => {
  const { docs, place, row, words } = waiting(view, error, times)
  const isDeadline = error.reason === "deadline"
  const what = isDeadline
    ? `The deadline (${span(times.deadlineAt - times.startedAt)}) passed`
    : `${aborts[error.reason ?? ""] ?? error.message}, after ${span(times.endedAt - times.startedAt)}`
  const own = error.reason === "shutdown" ? "operations/shutdown" : "reference/stream#error-codes"
  return {
    sentence: `${what}${words === "" ? "" : `${isDeadline ? "" : ","} while ${words}`}.`,
    row,
    isFault: isDeadline,
    place: isDeadline ? place : undefined,
    docs: isDeadline && docs !== undefined ? `operations/${docs}` : own
  }
}

/** What a provider did, behind its name. */
const faults: Readonly<Record<string, string>> = {
  provider_auth: "refused the key",
  provider_billing: "has no credit left for the key",
  provider_model_unavailable: "does not have the model",
  provider_rate_limited: "limited the rate of requests",
  provider_overloaded: "was overloaded",
  provider_server_error: "failed",
  provider_first_token_timeout: "did not begin to answer in time",
  provider_idle_timeout: "fell silent in its answer",
  provider_attempt_timeout: "took too long for one answer",
  provider_transport: "could not be reached, or the connection broke",
  provider_stream_truncated: "broke off its answer",
  provider_stream_corrupt: "sent an answer that cannot be read",
  provider_empty_answer: "gave an empty answer",
  provider_bad_request: "refused the request",
  provider_history_rejected: "refused the history",
  provider_tool_json: "wrote a tool call that cannot be read",
  context_overflow: "has too small a window for the prompt"
}

const aboutKey = new Set(["provider_auth", "provider_billing"])

const ofProvider = (view: PlanView, { code, data, message }: Failure, { endedAt, startedAt }: Times): Culprit => {
  const provider = view.model?.split("/", 1)[0] ?? "The provider"
  const attempts = typeof data?.["attempts"] === "number" ? data["attempts"] : 0
  // A plan that a window keeps from asking says so itself: which key, why, since when and until when.
  const key = text(data?.["credential"]) ?? / ([\w.-]+) is blocked for /.exec(message)?.[1]
  const place: Place = key === undefined ? undefined : { href: "/credentials", label: `Credential ${key}` }
  const rest = { row: lastAttempt(view)?.row, isFault: true, place, docs: "operations/provider-fails" }
  const what = faults[code] ?? `failed with ${code}`
  if (attempts === 0) return { ...rest, sentence: `${provider} was not asked${quoted(message)}` }
  const whose = key !== undefined && aboutKey.has(code) ? ` ${key}` : ""
  const who = code === "provider_model_unavailable" ? ` ${view.model ?? ""}` : whose
  const tried = `after ${counted(attempts, "attempt")} in ${span(endedAt - startedAt)}`
  return { ...rest, sentence: `${provider} ${what}${who} ${tried}${quoted(message)}` }
}

const ofLoop = (view: PlanView, { data, message }: Failure): Culprit => {
  const failed = view.tasks.filter(({ state, tool }) => tool === data?.["tool"] && state !== "completed")
  const last = failed.at(-1)
  const rest = {
    row: last === undefined ? undefined : `task-${last.taskId}`,
    isFault: true,
    place: placeOf(last),
    docs: last?.kind === "local" ? "reference/stream#loops" : `operations/${docsOf(last)}`
  }
  const first = failed[0]
  if (last === undefined || first === undefined) return { ...rest, sentence: message }
  const length = span((last.endedAt ?? last.startedAt) - first.startedAt)
  const said = text(data?.["error"]) ?? last.error?.message ?? message
  const what = `${last.tool}${byWhom(last)} failed ${counted(failed.length, "time")} within ${length}`
  return { ...rest, sentence: `${what}, and the model went on making the same call${quoted(said)}` }
}

const docs: Readonly<Record<string, string>> = {
  storage: "operations/database-away",
  interrupted: "operations/plan-interrupted",
  internal: "operations/internal",
  mcp_unreachable: "operations/mcp-server-fails",
  invalid_request: "operations/plans-refused",
  budget_exceeded: "operations/plans-refused"
}

const ofGateway = (view: PlanView, { code, data, message }: Failure, { endedAt, startedAt }: Times): Culprit => {
  const took = span(endedAt - startedAt)
  const steps = view.steps.length === 0 ? "before its first step" : `in step ${view.steps.length}`
  const last = lastAttempt(view)
  const rest = {
    row: last?.row ?? (view.steps.length === 0 ? undefined : `step-${view.steps.length}`),
    isFault: true,
    place: undefined,
    docs: docs[code] ?? "reference/stream#error-codes"
  }
  switch (code) {
    case "storage":
      return { ...rest, sentence: `The database failed the plan ${steps}, ${took} after its start${quoted(message)}` }
    case "interrupted":
      return {
        ...rest,
        sentence: `The process that ran the plan died ${steps}; another one noticed ${took} after its start.`
      }
    case "internal":
      return {
        ...rest,
        sentence: `A bug of the gateway ended the plan ${steps}, ${took} after its start${quoted(message)}`
      }
    case "output_invalid": {
      const problem = text(data?.["problem"]) ?? message
      return {
        ...rest,
        sentence: `The answer of ${view.model ?? "the model"} did not match response_format, nor did its repair, after ${took}${quoted(problem)}`
      }
    }
    case "mcp_unreachable": {
      const server = text(data?.["server"])
      const who =
        server === undefined ? "An MCP server that is required" : `The MCP server ${server}, which is required,`
      const place: Place = server === undefined ? undefined : { href: "/peers", label: `MCP server ${server}` }
      return { ...rest, place, sentence: `${who} could not be used, ${took} after the plan's start${quoted(message)}` }
    }
    default: {
      const task = view.tasks.findLast(({ tool }) => tool === data?.["tool"])
      if (task === undefined) return { ...rest, sentence: `After ${took}${quoted(message)}` }
      const sentence = `${task.tool}${byWhom(task)} was not completed: ${task.state} after ${span(task.durationMs ?? 0)}${quoted(message)}`
      return { ...rest, row: `task-${task.taskId}`, place: placeOf(task), docs: `operations/${docsOf(task)}`, sentence }
    }
  }
}

/** Says of a plan that did not complete who it was, what happened, and where to look. */
export const culpritOf = (view: PlanView, error: Failure, times: Times): Culprit => {
  if (error.code === "aborted") return ofAbort(view, error, times)
  if (error.code.startsWith("provider_") || error.code === "context_overflow") return ofProvider(view, error, times)
  return error.code === "loop_detected" ? ofLoop(view, error) : ofGateway(view, error, times)
}
