import type { HttpServerResponse } from "effect/http"
import * as SseAnswer from "../../http/SseAnswer.ts"
import type { DecisionPause } from "../../http/DecisionPause.ts"
import type { ChatLeg } from "./ChatLeg.ts"
import { ChatChunks, type ChatHead, type ChatOptions } from "./ChatChunks.ts"

/** The frames of a plan as a stream of Chat Completions. A client that does not see `[DONE]` sees an error. */
export const respond = (
  head: ChatHead,
  options: ChatOptions,
  { frames, shortCut }: SseAnswer.Told,
  leg?: ChatLeg,
  pause?: DecisionPause
): HttpServerResponse.HttpServerResponse => {
  const chunks = new ChatChunks(head, options, leg)
  return SseAnswer.translated({
    plan_id: head.plan_id,
    frames,
    shortCut,
    first: chunks.first,
    next: (frame) => chunks.next(frame),
    isCut: () => chunks.isCut,
    pause,
    end: (why) => {
      if (why === "paused") return chunks.pause()
      const { code, message } = SseAnswer.brokenOff(why)
      return chunks.fail(code, message)
    }
  })
}
