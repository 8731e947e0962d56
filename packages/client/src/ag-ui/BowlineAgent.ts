import {
  AbstractAgent,
  type AgentCapabilities,
  type AgentConfig,
  type BaseEvent,
  EventType,
  type Message,
  type RunAgentInput
} from "@ag-ui/client"
import { Observable } from "rxjs"
import { parse } from "../Requests.ts"
import type { Json, PlanRequest } from "../Wire.ts"
import {
  callsOf,
  fileAt,
  type ChatAnswer,
  type ChatDecision,
  type ChatOptions,
  hasAnswer,
  makeChatPlans,
  type OpenPlan,
  type Question,
  readEvents,
  refusal
} from "../ui/ChatPlans.ts"
import * as AgUiEvents from "./AgUiEvents.ts"

export type { ChatOptions }

interface Part {
  readonly type: string
  readonly text?: string
  readonly source?: { readonly type: string; readonly value: string; readonly mimeType?: string }
}

const partsOf = ({ content }: Pick<Message, "content">): Question["parts"] => {
  if (typeof content === "string") return [{ type: "text", text: content }]
  const parts: ReadonlyArray<Part> = Array.isArray(content) ? content : []
  return parts.map(({ source, text, type }) => {
    if (text !== undefined) return { type: "text", text }
    if (source === undefined) throw refusal(`Expected a text or a source in the part of type ${type}`)
    if (source.type === "file") return { type: "file", file_id: source.value }
    const url = source.type === "data" ? `data:;base64,${source.value}` : source.value
    return fileAt(url, source.mimeType)
  })
}

const isText = (part: Question["parts"][number]) => part.type === "text"

const decisionOf = ({ interruptId, payload, status }: NonNullable<RunAgentInput["resume"]>[number]): ChatDecision => {
  if (status === "cancelled") return { taskId: interruptId, decision: "reject", note: undefined }
  const answer: unknown = payload
  const { decision, note }: { readonly decision?: unknown; readonly note?: unknown } =
    typeof answer === "object" && answer !== null ? answer : {}
  if (decision !== "approve" && decision !== "reject") {
    throw refusal('Expected the payload of an answer to be {decision: "approve" | "reject", note?}')
  }
  return { taskId: interruptId, decision, note: typeof note === "string" ? note : undefined }
}

const textOf = (parts: Question["parts"]): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")

/** What is decided. A new question stands in place of answers that are all cancelled. */
const decisionsOf = ({ messages, resume = [] }: RunAgentInput): ReadonlyArray<ChatDecision> =>
  messages.at(-1)?.role === "user" && resume.every(({ status }) => status === "cancelled") ? [] : resume.map(decisionOf)

/** The results of the page's own tools: the messages behind all others. */
const resultsOf = ({ messages }: RunAgentInput): ReadonlyArray<ChatAnswer> =>
  messages.slice(messages.findLastIndex(({ role }) => role !== "tool") + 1).flatMap((message) => {
    if (message.role !== "tool") return []
    const { error, toolCallId: taskId } = message
    const parts = partsOf(message)
    const text = textOf(parts)
    // What a page's tool gives is a value of JSON.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const given = (parts.every(isText) ? (parse(text) ?? text) : parts) as Json
    const content = error ?? given
    return [{ taskId, content, isError: error !== undefined }]
  })

const isSchema = (schema: unknown): schema is { readonly [key: string]: Json } =>
  typeof schema === "object" && schema !== null

/** The page's own tools, as the plan has them. */
const toolsOf = ({ tools }: RunAgentInput): NonNullable<PlanRequest["tools"]> =>
  tools.map(({ description, name, parameters }) => {
    const schema: unknown = parameters
    return { name, description, input_schema: isSchema(schema) ? schema : {} }
  })

const ownOf = (props: unknown): unknown =>
  typeof props === "object" && props !== null && "bowline" in props ? props.bowline : undefined

/**
 * An agent of AG-UI (1.0) whose runs are plans of a gateway, read through the client: its streams are resumed where a connection breaks. The
 * `threadId` is the session. `connectAgent` shows what runs in the thread from its start. `abortRun` ends the plan; whoever unsubscribes only
 * stops to look. A call that waits for an approval ends the run with an interrupt, which the `resume` of the next one answers.
 * A call of a tool of the page ends the run, too; the next one has its result as a `tool` message.
 */
export class BowlineAgent extends AbstractAgent {
  private readonly plans: ReturnType<typeof makeChatPlans>
  private leaving = new AbortController()

  constructor({ bowline, preset, request, ...config }: ChatOptions & AgentConfig) {
    super(config)
    this.plans = makeChatPlans({ bowline, preset, request })
  }

  override run(input: RunAgentInput): Observable<BaseEvent> {
    const answers = [...decisionsOf(input), ...resultsOf(input)]
    return this.observe(input, answers, (own, signal) => this.open(input, answers, own, signal))
  }

  /** What every agent of a gateway can do. Streams are resumed by the client. */
  override getCapabilities(): Promise<AgentCapabilities> {
    return Promise.resolve({ ...AgUiEvents.capabilities, transport: { streaming: true, resumable: true } })
  }

  protected override connect(input: RunAgentInput): Observable<BaseEvent> {
    return this.observe(input, [], (own) => this.plans.running(input.threadId, own))
  }

  override abortRun(): void {
    this.leaving.abort()
    super.abortRun()
  }

  override clone(): BowlineAgent {
    const clone: unknown = super.clone()
    if (!(clone instanceof BowlineAgent)) throw new TypeError("A clone of an agent is an agent of the same class")
    return Object.assign(clone, { plans: this.plans, leaving: new AbortController() })
  }

  private async open(
    input: RunAgentInput,
    answers: ReadonlyArray<ChatAnswer>,
    own: unknown,
    signal: AbortSignal
  ): Promise<OpenPlan> {
    const { context, messages, resume = [], threadId } = input
    if (hasAnswer(answers)) return this.plans.answer(threadId, answers, own)
    const last = messages.at(-1)
    if (last?.role !== "user") throw refusal("Expected the user's message, which is the question, as the last one")
    const told = context.map(({ description, value }) => `${description}: ${value}`)
    const tools = toolsOf(input)
    const asked = tools.length === 0 ? own : { tools, ...(typeof own === "object" && own) }
    const parts = [...told.map((text) => ({ type: "text" as const, text })), ...partsOf(last)]
    const question = { parts, id: last.id, isAgain: false, interrupts: resume.length > 0, own: asked }
    return this.plans.ask(threadId, question, { signal })
  }

  /** The events of a run, one stream for each subscriber. */
  private observe(
    { forwardedProps, messages, runId, threadId }: RunAgentInput,
    answers: ReadonlyArray<ChatAnswer>,
    open: (own: unknown, signal: AbortSignal) => Promise<OpenPlan | undefined>
  ): Observable<BaseEvent> {
    const run = { threadId, runId, messages }
    const { decided, given } = callsOf(answers)
    return new Observable((subscriber) => {
      const leaving = new AbortController()
      this.leaving = leaving
      const read = async (): Promise<void> => {
        try {
          const opened = await open(ownOf(forwardedProps), leaving.signal)
          if (opened === undefined) {
            const { protocolVersion } = AgUiEvents
            subscriber.next({ type: EventType.RUN_STARTED, threadId, runId, protocolVersion })
            subscriber.next({ type: EventType.RUN_FINISHED, threadId, runId })
          } else {
            const { files, leg } = opened
            const shown = { ...(answers.length > 0 ? { decided, given } : leg), urlOf: files.urlOf }
            const fold = AgUiEvents.make(run, shown)
            for await (const event of readEvents(opened, fold, decided, leaving.signal)) {
              if (subscriber.closed) return
              subscriber.next({ ...event, type: EventType[event.type] })
            }
          }
          subscriber.complete()
        } catch (error) {
          subscriber.error(error)
        }
      }
      void read()
    })
  }
}
