import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { Final, StopReason } from "@bowline/domain/plan/Outcome"
import type { Usage } from "@bowline/domain/plan/Usage"
import { version } from "@bowline/protocol/api/Api"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import * as OpenAiError from "./OpenAiError.ts"
import { ChatLeg } from "./ChatLeg.ts"
import { PlanText } from "./PlanText.ts"

/** What stands in every chunk, and in the answer. `created` is in seconds. */
export interface ChatHead {
  readonly plan_id: string
  readonly created: number
  readonly model: string
}

export interface ChatOptions {
  readonly includesUsage: boolean
  readonly showsProgress: boolean
  /** What the stream does when the plan takes back text that was shown. */
  readonly onRetract: "error" | "append" | "hold"
}

export const chatId = (plan_id: string): string => `chatcmpl-${plan_id}`

/** The fields that a chunk and a whole answer share. */
export const headOf = ({ created, model, plan_id }: ChatHead, object: string) => ({
  id: chatId(plan_id),
  object,
  created,
  model,
  system_fingerprint: version
})

const finishReasons: Record<StopReason, "stop" | "length" | "content_filter"> = {
  stop: "stop",
  pause: "stop",
  max_steps: "length",
  max_tool_calls: "length",
  max_total_tokens: "length",
  max_cost: "length",
  max_tokens: "length",
  loop: "length",
  content_filter: "content_filter",
  refusal: "content_filter"
}

/** Why the answer ended, and what the client shows where the model did not want to give it. */
export const finishOf = ({ stop_reason, text }: Pick<Final, "stop_reason" | "text">) => {
  const finish_reason = finishReasons[stop_reason]
  const refusal = text.trim() === "" ? "The model did not want to answer" : text
  return { finish_reason, refusal: finish_reason === "content_filter" ? refusal : null }
}

export const usageOf = (usage: Usage) => ({
  prompt_tokens: usage.input_tokens,
  completion_tokens: usage.output_tokens,
  total_tokens: usage.input_tokens + usage.output_tokens,
  prompt_tokens_details: { cached_tokens: usage.cached_input_tokens },
  completion_tokens_details: { reasoning_tokens: usage.reasoning_tokens }
})

/** One event of the stream: a comment goes through as it is. */
const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** The frames that change what a client sees. Nothing of the others is parsed. */
const matters: ReadonlySet<PlanEvent["event"]> = new Set<PlanEvent["event"]>([
  "step",
  "text.delta",
  "text.retract",
  "task.started",
  "task.artifact",
  "task.finished",
  "approval.requested",
  "approval.resolved",
  "waiting",
  "usage",
  "final",
  "error"
])

/**
 * Turns the frames of a plan into the events of a stream of Chat Completions. It begins with `first`, and ends well,
 * behind `[DONE]`, or with an error, with nothing behind it. If `isCut`, it has ended before the plan.
 *
 *   first ──▶ content, reasoning_content ──▶ files? ──▶ finish_reason ──▶ usage? ──▶ [DONE]
 *                          ├───▶ files? ──▶ tool_calls ──▶ finish_reason ──▶ usage? ──▶ [DONE]
 *                          └───▶ error
 */
export class ChatChunks {
  isCut = false
  #isOver = false
  readonly #options: ChatOptions
  /** A chunk in front of its `choices`, and behind them. */
  readonly #head: string
  readonly #tail: string
  readonly #text: PlanText
  readonly #leg: ChatLeg
  readonly #tools = new Map<string, string>()

  constructor(head: ChatHead, options: ChatOptions, leg = new ChatLeg()) {
    this.#options = options
    this.#leg = leg
    this.#head = `data: ${JSON.stringify(headOf(head, "chat.completion.chunk")).slice(0, -1)},"choices":`
    this.#tail = options.includesUsage ? `,"usage":null}\n\n` : "}\n\n"
    this.#text = new PlanText(options.onRetract === "hold")
  }

  /** Shows at once that the request was accepted. */
  get first(): string {
    return this.#chunk({ role: "assistant", content: "" })
  }

  /** The events for a frame; empty if it shows nothing. */
  next(frame: PlanFrame): string {
    if (this.#isOver || !matters.has(frame.event)) return ""
    const event = toEvent(frame)
    return this.#leg.next(event) ? this.#of(event) : ""
  }

  /** Ends the stream where the client is to make calls. */
  pause(): string {
    this.#isOver = true
    const calls = this.#leg.calls.map((call, index) => this.#chunk({ tool_calls: [{ index, ...call }] })).join("")
    return `${this.#files()}${calls}${this.#chunk({}, "tool_calls")}${this.#usage(this.#leg.usage)}data: [DONE]\n\n`
  }

  /** Ends the stream for a reason that is not the plan's own. */
  fail(code: string, message: string): string {
    if (this.#isOver) return ""
    this.#isOver = true
    this.isCut = true
    return data(OpenAiError.make(500, code, message))
  }

  #of(event: PlanEvent): string {
    if (event.event === "text.retract") return this.#retract(event.data)
    const text = this.#content(this.#text.next(event))
    switch (event.event) {
      case "task.started": {
        const { agent, kind, skill, task_id, tool } = event.data
        if (kind === "client") return text
        const name = agent === null || skill === null ? tool : `${agent}.${skill}`
        this.#tools.set(task_id, name)
        return text + this.#progress(`→ ${name} …`)
      }
      case "task.finished": {
        const { duration_ms, state, task_id } = event.data
        const name = this.#tools.get(task_id)
        if (name === undefined) return ""
        const end = state === "completed" ? `✓ ${name}` : `✗ ${name} ${state}`
        return this.#progress(`${end} ${seconds(duration_ms)}`)
      }
      case "approval.requested":
        return text + this.#progress(`… ${event.data.tool} waits for an approval`)
      case "final":
        return text + this.#end(event.data)
      case "error":
        this.#isOver = true
        return data(OpenAiError.chunkOf(event.data))
      default:
        return text
    }
  }

  #retract(attempt: { readonly step: number; readonly attempt: number }): string {
    const wasShown = this.#text.retract(attempt)
    if (!wasShown) return ""
    if (this.#options.onRetract === "append") return this.#content("\n\n⟲ starting over\n\n")
    return this.fail("text_retracted", "The text so far is not part of the answer: ask again")
  }

  #end(final: Final): string {
    this.#isOver = true
    const { finish_reason, refusal } = finishOf(final)
    const last = this.#chunk(refusal === null ? {} : { refusal }, finish_reason)
    return `${this.#files()}${last}${this.#usage(this.#leg.usageAt(final))}data: [DONE]\n\n`
  }

  /** In one chunk: the helper of OpenAI's client keeps the last one of a field that it does not know. */
  #files(): string {
    const { files } = this.#leg
    return Object.keys(files).length === 0 ? "" : this.#chunk(files)
  }

  #usage(usage: Usage): string {
    if (!this.#options.includesUsage) return ""
    return `${this.#head}[],"usage":${JSON.stringify(usageOf(usage))}}\n\n`
  }

  #content(content: string): string {
    return content === "" ? "" : this.#chunk({ content })
  }

  #progress(line: string): string {
    return this.#options.showsProgress ? this.#chunk({ reasoning_content: `${line}\n` }) : ""
  }

  #chunk(delta: object, finish_reason: string | null = null): string {
    return `${this.#head}${JSON.stringify([{ index: 0, delta, finish_reason }])}${this.#tail}`
  }
}
