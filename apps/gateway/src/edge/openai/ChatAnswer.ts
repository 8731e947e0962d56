import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import { HttpServerResponse } from "effect/http"
import * as ChatChunks from "./ChatChunks.ts"
import * as OpenAiError from "./OpenAiError.ts"
import { PlanText } from "./PlanText.ts"

/** The answer to a client that did not ask for a stream: only text that was not retracted. */
export class ChatAnswer {
  #content = ""
  readonly #text = new PlanText(true)

  readonly look = (frame: PlanFrame): void => {
    this.#content += this.#text.next(toEvent(frame))
  }

  /** A `chat.completion` of a plan that completed, or the error of its end. */
  respond(head: ChatChunks.ChatHead, { error, final, usage }: PlanResult): HttpServerResponse.HttpServerResponse {
    if (final === undefined) {
      const { body, headers, status } = OpenAiError.fromFailure(
        error ?? { code: "internal", message: "The plan has no end", retryable: false, stage: null }
      )
      return HttpServerResponse.jsonUnsafe(body, { status, headers })
    }
    const { finish_reason, refusal } = ChatChunks.finishOf(final)
    const message = { role: "assistant", content: this.#content, refusal }
    return HttpServerResponse.jsonUnsafe({
      ...ChatChunks.headOf(head, "chat.completion"),
      choices: [{ index: 0, message, logprobs: null, finish_reason }],
      usage: ChatChunks.usageOf(usage)
    })
  }
}
