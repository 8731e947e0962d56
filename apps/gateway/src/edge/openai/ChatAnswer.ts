import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { Usage } from "@bowline/domain/plan/Usage"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import { HttpServerResponse } from "effect/http"
import * as ChatChunks from "./ChatChunks.ts"
import type { ChatLeg } from "./ChatLeg.ts"
import * as OpenAiError from "./OpenAiError.ts"
import { PlanText } from "./PlanText.ts"

/** The answer to a client that did not ask for a stream: only text that was not retracted. */
export class ChatAnswer {
  #content = ""
  readonly #leg: ChatLeg
  readonly #text = new PlanText(true)

  constructor(leg: ChatLeg) {
    this.#leg = leg
  }

  readonly look = (frame: PlanFrame): void => this.tell(toEvent(frame))

  tell(event: PlanEvent): void {
    if (this.#leg.next(event)) this.#content += this.#text.next(event)
  }

  /** A `chat.completion` of a plan that completed, or the error of its end. Without a result it waits for its client. */
  respond(head: ChatChunks.ChatHead, result: PlanResult | undefined): HttpServerResponse.HttpServerResponse {
    if (result === undefined) {
      const content = this.#content === "" ? null : this.#content
      const message = { role: "assistant", content, refusal: null, ...this.#leg.files, tool_calls: this.#leg.calls }
      return HttpServerResponse.jsonUnsafe(this.#whole(head, message, "tool_calls", this.#leg.usage))
    }
    const { error, final } = result
    if (final === undefined) {
      const { body, headers, status } = OpenAiError.fromFailure(
        error ?? { code: "internal", message: "The plan has no end", retryable: false, stage: null }
      )
      return HttpServerResponse.jsonUnsafe(body, { status, headers })
    }
    return HttpServerResponse.jsonUnsafe(this.completion(head, final))
  }

  /** The `chat.completion` of a plan that has completed so. */
  completion(head: ChatChunks.ChatHead, final: Final) {
    const { finish_reason, refusal } = ChatChunks.finishOf(final)
    const message = { role: "assistant", content: this.#content, refusal, ...this.#leg.files }
    return this.#whole(head, message, finish_reason, this.#leg.usageAt(final))
  }

  #whole(head: ChatChunks.ChatHead, message: object, finish_reason: string, usage: Usage) {
    return {
      ...ChatChunks.headOf(head, "chat.completion"),
      choices: [{ index: 0, message, logprobs: null, finish_reason }],
      usage: ChatChunks.usageOf(usage)
    }
  }
}
