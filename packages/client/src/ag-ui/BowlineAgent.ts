import {
  AbstractAgent,
  type AgentConfig,
  type BaseEvent,
  EventType,
  type Message,
  type RunAgentInput
} from "@ag-ui/client"
import { Observable } from "rxjs"
import {
  type ChatDecision,
  type ChatOptions,
  makeChatPlans,
  type OpenPlan,
  readEvents,
  refusal
} from "../ui/ChatPlans.ts"
import * as AgUiEvents from "./AgUiEvents.ts"

export type { ChatOptions }

const textOf = ({ content }: Pick<Message, "content">): string => {
  if (typeof content === "string") return content
  const parts: ReadonlyArray<{ readonly type: string; readonly text?: string }> = Array.isArray(content) ? content : []
  if (parts.some(({ type }) => type !== "text")) throw refusal("Expected texts: the planner takes no files")
  return parts.map(({ text = "" }) => text).join("\n\n")
}

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

/** What is decided. A new question stands in place of answers that are all cancelled. */
const decisionsOf = ({ messages, resume = [] }: RunAgentInput): ReadonlyArray<ChatDecision> =>
  messages.at(-1)?.role === "user" && resume.every(({ status }) => status === "cancelled") ? [] : resume.map(decisionOf)

const ownOf = (props: unknown): unknown =>
  typeof props === "object" && props !== null && "bowline" in props ? props.bowline : undefined

/**
 * An agent of AG-UI (1.0) whose runs are plans of a gateway, read through the client: its streams are resumed where a connection breaks. The
 * `threadId` is the session. `connectAgent` shows what runs in the thread from its start. `abortRun` ends the plan; whoever unsubscribes only
 * stops to look. A call that waits for an approval ends the run with an interrupt, which the `resume` of the next one answers.
 */
export class BowlineAgent extends AbstractAgent {
  private readonly plans: ReturnType<typeof makeChatPlans>
  private leaving = new AbortController()

  constructor({ bowline, preset, request, ...config }: ChatOptions & AgentConfig) {
    super(config)
    this.plans = makeChatPlans({ bowline, preset, request })
  }

  override run(input: RunAgentInput): Observable<BaseEvent> {
    const decisions = decisionsOf(input)
    return this.observe(input, decisions, (own, signal) => this.open(input, decisions, own, signal))
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
    { context, messages, resume = [], threadId, tools }: RunAgentInput,
    [decision, ...decisions]: ReadonlyArray<ChatDecision>,
    own: unknown,
    signal: AbortSignal
  ): Promise<OpenPlan> {
    if (decision !== undefined) return this.plans.decide(threadId, [decision, ...decisions], own)
    if (tools.length > 0) {
      throw refusal(
        `Expected no tools of the client, and not ${tools.map(({ name }) => name).join(", ")}: the planner calls its own`
      )
    }
    const last = messages.at(-1)
    if (last?.role !== "user") throw refusal("Expected the user's message, which is the question, as the last one")
    const told = context.map(({ description, value }) => `${description}: ${value}`)
    const text = [...told, textOf(last)].join("\n\n")
    const question = { text, id: last.id, isAgain: false, interrupts: resume.length > 0, own }
    return this.plans.ask(threadId, question, { signal })
  }

  /** The events of a run, one stream for each subscriber. */
  private observe(
    { forwardedProps, messages, runId, threadId }: RunAgentInput,
    decisions: ReadonlyArray<ChatDecision>,
    open: (own: unknown, signal: AbortSignal) => Promise<OpenPlan | undefined>
  ): Observable<BaseEvent> {
    const run = { threadId, runId, messages }
    const behind = decisions.map(({ taskId }) => taskId)
    return new Observable((subscriber) => {
      const leaving = new AbortController()
      this.leaving = leaving
      const read = async (): Promise<void> => {
        try {
          const opened = await open(ownOf(forwardedProps), leaving.signal)
          if (opened === undefined) {
            subscriber.next({ type: EventType.RUN_STARTED, threadId, runId })
            subscriber.next({ type: EventType.RUN_FINISHED, threadId, runId })
          } else {
            const fold = AgUiEvents.make(run, behind)
            for await (const event of readEvents(opened, fold, new Set(behind), leaving.signal)) {
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
