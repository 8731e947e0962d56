import type { ChatTransport, UIMessage, UIMessageChunk } from "ai"
import type { Json } from "../Wire.ts"
import {
  callsOf,
  fileAt,
  type ChatAnswer,
  type ChatOptions,
  hasAnswer,
  makeChatPlans,
  type OpenPlan,
  type Question,
  readEvents,
  refusal
} from "../ui/ChatPlans.ts"
import * as UiChunks from "./UiChunks.ts"

export type { ChatOptions }

type Part = UIMessage["parts"][number]

const partsOf = ({ parts }: UIMessage): Question["parts"] =>
  parts.flatMap((part) => {
    if (part.type === "text") return [{ type: "text", text: part.text }]
    return part.type === "file" ? [fileAt(part.url, part.mediaType, part.filename)] : []
  })

const stateOf = (part: Part): string | undefined => ("state" in part ? part.state : undefined)

/** What its user has decided in a message, and the results of the page's own tools in its last step. */
const answersOf = ({ parts }: UIMessage): ReadonlyArray<ChatAnswer> => {
  const lastStep = parts.findLastIndex(({ type }) => type === "step-start")
  return parts.flatMap((part, index): ReadonlyArray<ChatAnswer> => {
    if ("approval" in part && part.state === "approval-responded") {
      const { approved, id, reason } = part.approval
      return [{ taskId: id, decision: approved ? "approve" : "reject", note: reason === "" ? undefined : reason }]
    }
    if (!("toolCallId" in part) || part.providerExecuted === true || index < lastStep) return []
    const { toolCallId: taskId } = part
    // What a page's tool gives is a value of JSON.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (part.state === "output-available") return [{ taskId, content: (part.output ?? null) as Json, isError: false }]
    return part.state === "output-error" ? [{ taskId, content: part.errorText, isError: true }] : []
  })
}

/** Whether the user asks although a call of the last answer waits for an approval. */
const leavesOpen = (messages: ReadonlyArray<UIMessage>): boolean =>
  messages
    .findLast(({ role }) => role === "assistant")
    ?.parts.some((part) => stateOf(part) === "approval-requested") === true

/** The plan of an answer. */
const planOf = ({ id, metadata }: UIMessage): string => {
  const named = typeof metadata === "object" && metadata !== null && "planId" in metadata ? metadata.planId : undefined
  return typeof named === "string" ? named : id
}

/** Bowline's own options, and the tools of the page, which a page gives in the extra body. */
const ownOf = (body: object = {}): unknown => {
  const { bowline, tools }: { readonly bowline?: unknown; readonly tools?: unknown } = body
  return tools === undefined ? bowline : { tools, ...(typeof bowline === "object" && bowline) }
}

const toReadable = <Event>(events: AsyncGenerator<Event, void, undefined>, leave: () => void): ReadableStream<Event> =>
  new ReadableStream({
    pull: async (controller) => {
      const read = await events.next()
      if (read.done === true) controller.close()
      else controller.enqueue(read.value)
    },
    cancel: leave
  })

/**
 * Lets the AI SDK's `useChat` (version 7) speak to a gateway through the client: its streams are resumed where a connection breaks. The
 * chat's id is the session. `stop()` ends the plan, and so does whoever cancels a stream; a reload does not, for 30 s. A call that waits for
 * an approval, or for the result of a tool of the page (`tools` of the request), ends the stream; `addToolApprovalResponse` or `addToolOutput`, and
 * the next request, answer it. `sendMessages` fails with a `BowlineError`
 * where the gateway refuses the plan.
 */
export class BowlineChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  readonly resumeStreamIsReplay = true
  readonly #plans: ReturnType<typeof makeChatPlans>

  constructor(options: ChatOptions) {
    this.#plans = makeChatPlans(options)
  }

  readonly sendMessages: ChatTransport<Message>["sendMessages"] = async ({
    abortSignal,
    body,
    chatId,
    messageId,
    messages,
    trigger
  }) => {
    const last = messages.at(-1)
    const own = ownOf(body)
    if (last?.role === "user") {
      if (messages.some(({ role }) => role === "system")) {
        throw refusal("Expected no system message: say it in the instructions of a preset")
      }
      const question = {
        parts: partsOf(last),
        id: last.id,
        isAgain: trigger === "regenerate-message" || messageId === last.id,
        interrupts: leavesOpen(messages),
        own
      }
      const opened = await this.#plans.ask(chatId, question, { signal: abortSignal })
      return this.#read(opened, [], abortSignal)
    }
    const answers = last === undefined || trigger === "regenerate-message" ? [] : answersOf(last)
    if (last === undefined || !hasAnswer(answers)) {
      throw refusal(
        "Expected the user's message, which is the question, or an answer to an approval or of a tool, in the last message"
      )
    }
    const opened = await this.#plans.answer(chatId, answers, own, planOf(last))
    return this.#read(opened, answers, abortSignal)
  }

  readonly reconnectToStream: ChatTransport<Message>["reconnectToStream"] = async ({ abortSignal, body, chatId }) => {
    const running = await this.#plans.running(chatId, ownOf(body))
    return running === undefined ? null : this.#read(running, [], abortSignal)
  }

  #read(opened: OpenPlan, answers: ReadonlyArray<ChatAnswer>, signal?: AbortSignal): ReadableStream<UIMessageChunk> {
    const leaving = new AbortController()
    const leave = () => leaving.abort(signal?.reason)
    signal?.addEventListener("abort", leave)
    if (signal?.aborted === true) leave()
    const { decided, given } = callsOf(answers)
    const { files, leg } = opened
    const shown = { ...(answers.length > 0 ? { decided, given } : leg), urlOf: files.urlOf }
    const fold = UiChunks.make(shown, leg?.entry)
    return toReadable<UIMessageChunk>(readEvents(opened, fold, decided, leaving.signal), leave)
  }
}
