import { actsForCaller, type Agent, type Skill, urlsOf } from "@bowline/domain/peer/Agent"
import type { PeerError, PeerErrorReason } from "@bowline/domain/peer/PeerError"
import { handedBack } from "@bowline/domain/tool/TaskState"
import { Effect, type Schema, Struct } from "effect"
import type {
  PeerAnswer,
  PeerCall,
  PeerClient,
  PeerEvent,
  PeerResult,
  ReceivedFile,
  RemoteIds,
  Route
} from "../remote/PeerClient.ts"
import { endpointOf } from "../store/StoredAgent.ts"
import { withAccount } from "./Accounts.ts"
import { expired, expiredUnsent } from "./ClientTools.ts"
import type { HandedBackTasks } from "./HandedBackTasks.ts"
import { asking } from "./Questions.ts"
import type { AgentDid, JsonSchema, TaskCall, Tool, ToolResult } from "./Tool.ts"
import * as ToolName from "./ToolName.ts"

/** The input of a skill that declares no input schema. */
export const textInput: JsonSchema = {
  type: "object",
  properties: { input: { type: "string", description: "What the agent is asked, in plain words" } },
  required: ["input"],
  additionalProperties: false
}

const maxDetails = 8_192

const detailsText = (details: Schema.Json): string => {
  const text = typeof details === "string" ? details : JSON.stringify(details)
  return text.length <= maxDetails ? text : `${text.slice(0, maxDetails)}…`.toWellFormed()
}

/** An error as the model reads it: its message, with the terms of a payment or the peer's own details, cut at `maxDetails`. */
const errorText = (reason: PeerErrorReason): string => {
  if (reason._tag === "payment_required" && reason.terms !== undefined) {
    return `The peer asks for a payment: ${detailsText(reason.terms)}`
  }
  if (reason._tag === "rpc" && reason.data != null) return `${reason.message}\n${detailsText(reason.data)}`
  return reason.message
}

/** Reasons of ours for which a call does not leave. */
const keptBack: ReadonlySet<PeerErrorReason["_tag"]> = new Set(["egress_denied", "circuit_open", "account_required"])

/** Whether a request that failed so was never sent: its connection was refused, there were no credentials for it, or we did not let it leave. */
export const isUnsent = (reason: PeerErrorReason): boolean => {
  if (reason._tag === "unreachable") return reason.code === "ECONNREFUSED"
  return keptBack.has(reason._tag) || (reason._tag === "auth" && reason.status === undefined)
}

const fromError = ({ reason }: PeerError): ToolResult => ({
  state: "failed",
  ...(isUnsent(reason) && { isUnsent: true }),
  content: errorText(reason),
  error: { code: reason._tag, message: reason.message }
})

/** The files that are taken in: whoever names the skill decides whether the agent's URLs are fetched. */
export const takenFiles = (
  files: ReadonlyArray<ReceivedFile> = [],
  fetches: boolean | undefined
): { readonly files?: ReadonlyArray<ReceivedFile> } => {
  const taken = fetches === true ? files : files.filter((file) => "data" in file)
  return taken.length === 0 ? {} : { files: taken }
}

const fromResult = ({ files, ...result }: PeerResult, { fetch_files }: Skill): ToolResult => {
  if (result.state === "completed") return { ...result, ...takenFiles(files, fetch_files) }
  if (result.state === "timed-out") return expired
  const code = result.state === "payment-required" ? "payment_required" : "task_failed"
  return { ...result, ...takenFiles(files, fetch_files), error: { code, message: result.content.slice(0, 500) } }
}

/** The DID that the request pins; else the DID on the card, if the call reads the card anyway or has to verify the DID. */
const identify = (peers: PeerClient["Service"], agent: Agent): Effect.Effect<AgentDid | null> => {
  const { dialect, skills, trust = {} } = agent
  if (trust.pinned_did !== undefined) return Effect.succeed({ did: trust.pinned_did, source: "pinned" })
  if (skills !== undefined && dialect !== "auto" && trust.verify_did !== true) return Effect.succeed(null)
  return peers.discover(agent).pipe(
    Effect.map(({ did }): AgentDid | null => (did === null ? null : { did, source: "observed" })),
    Effect.orElseSucceed(() => null)
  )
}

/** What the calls of a plan share. */
interface Shared {
  readonly peers: PeerClient["Service"]
  readonly left: HandedBackTasks
  readonly route: Route
  /** Whether a call waits for the answer to what its peer asks. */
  readonly waits: boolean
}

/** Asks the user what the peer asks. The message of an answer has the id of its entry, also where another process, or another attempt, sends it once more. */
const answering = (call: Pick<TaskCall, "ask" | "asked">) => {
  const ask = asking(call)
  let last: { readonly mark: string; readonly answer: PeerAnswer } | undefined
  let isRepeated = false
  const answer: PeerCall["answer"] = (question) =>
    Effect.suspend(() => {
      const isSame = isRepeated && last?.mark === question.mark
      isRepeated = false
      if (isSame && last !== undefined) return Effect.succeed(last.answer)
      return Effect.map(ask({ schema: null, ...question }), (given) => {
        if (given === undefined || given === "expired") return given
        const { data, text } = given.entry
        const answer = { messageId: given.entry_id.replace(/^entry_/, ""), content: text ?? data ?? null }
        last = { mark: question.mark, answer }
        return answer
      })
    })
  /** Another attempt begins: the last answer may not have been sent. */
  const repeat = () => {
    isRepeated = true
  }
  return { answer, repeat }
}

/** What a call has told, where it may be attempted again: that attempt hears the task from its beginning. */
class Told {
  readonly #isKept: boolean
  readonly #told = new Set<string>()
  #before = new Set<string>()

  constructor(isKept: boolean) {
    this.#isKept = isKept
  }

  /** Another attempt begins. */
  repeat(): void {
    this.#before = new Set(this.#told)
  }

  /** Whether an earlier attempt has told the event. Each one counts once. */
  isRepeated(event: PeerEvent): boolean {
    if (!this.#isKept) return false
    const text = JSON.stringify(event)
    if (this.#before.delete(text)) return true
    this.#told.add(text)
    return false
  }
}

/** What a tool says of its skill. */
export const describe = ({ auth, endpoint, name: agent }: Agent, skill: Skill) => ({
  name: ToolName.forSkill(agent, skill.id),
  agent,
  skill: skill.id,
  urls: urlsOf(endpoint, auth),
  description: skill.description ?? `Ask the agent ${agent}: ${skill.id}`,
  inputSchema: skill.input_schema ?? textInput,
  isIdempotent: skill.idempotent === true
})

/** A skill of a peer as a tool of the planner. */
export const fromSkill = ({ left, peers, route, waits }: Shared, agent: Agent, skill: Skill): Tool => {
  const described = describe(agent, skill)
  const { name } = described

  /** Keeps a task that the peer has handed back for the next call. */
  const leave = (result: ToolResult, task: RemoteIds, hasEffect: boolean): ToolResult => {
    if (!handedBack.has(result.state) || task.taskId === null) return result
    left.leave(agent, skill, task)
    const next = !hasEffect ? `the next call of ${name}` : `a call of ${name} that is to do the same`
    return { ...result, note: `The task is not over: ${next} continues it.` }
  }

  /** Keeps the task for the next call if this one did not reach the peer. If the peer refuses to continue the task, drops it. */
  const keep = (result: ToolResult, continues: RemoteIds, isReached: boolean): ToolResult => {
    if (isReached)
      return { ...result, note: `The task that was open is let go: the next call of ${name} starts a new one.` }
    left.leave(agent, skill, continues)
    return result
  }

  return {
    ...described,
    kind: "peer",
    endpoint: endpointOf(agent),
    timeoutMs: skill.timeout_ms,
    isPolling: skill.polling === true,
    effect: skill.effect,
    approval: skill.approval,
    identify: identify(peers, agent),
    call: ({ ask, asked, awaitAccount, isInquiry = false, isOther = false, onEvent, ...call }) =>
      Effect.suspend(() => {
        const continues = call.resumes === undefined && !isOther ? left.take(agent, skill) : null
        let accepted: RemoteIds = call.resumes ?? { taskId: null, contextId: null }
        const { answer, repeat } = answering({ ask, asked })
        const heard = new Told(actsForCaller(agent.auth))
        /** An attempt waits for the remote task that an earlier one has begun. */
        const attempt = () => {
          const { contextId, taskId } = accepted
          const begun = taskId === null ? { continues } : { continues: null, resumes: { taskId, contextId } }
          return peers.call({ agent, skill, route, ...call, ...begun, ...(waits && { answer }) }, (event) => {
            if (event._tag === "Accepted") {
              accepted = { taskId: event.remoteTaskId, contextId: event.remoteContextId }
            } else if (heard.isRepeated(event)) {
              return Effect.void
            }
            return onEvent(
              event._tag === "Artifact"
                ? { ...Struct.omit(event, ["files"]), ...takenFiles(event.files, skill.fetch_files) }
                : event
            )
          })
        }
        /** Nobody goes on with the task that the peer works at. */
        const cancel = Effect.suspend(() => {
          const { contextId, taskId } = accepted
          return taskId === null ? Effect.void : peers.cancel({ agent, taskId, contextId, route })
        })
        const waiting: TaskCall["awaitAccount"] = (needed) =>
          awaitAccount(needed).pipe(
            Effect.tap((isThere) => {
              repeat()
              heard.repeat()
              return isThere ? Effect.void : cancel
            }),
            Effect.onInterrupt(() => (call.isHandedOver() ? Effect.void : cancel))
          )
        return withAccount({ awaitAccount: waiting }, attempt).pipe(
          Effect.map((result) => {
            if (result === "expired") return accepted.taskId === null ? expiredUnsent : expired
            const ended = fromResult(result, skill)
            return isInquiry ? ended : leave(ended, accepted, call.idempotencyKey !== undefined)
          }),
          Effect.catchTag("PeerError", (error) =>
            Effect.sync(() => {
              const failed = fromError(error)
              return continues === null ? failed : keep(failed, continues, accepted.taskId !== null)
            })
          )
        )
      })
  }
}
