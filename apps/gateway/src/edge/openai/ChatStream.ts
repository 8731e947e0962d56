import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import type { HttpServerResponse } from "effect/http"
import * as SseAnswer from "../../http/SseAnswer.ts"
import { ChatChunks, type ChatHead, type ChatOptions } from "./ChatChunks.ts"

/** The frames of a plan as a stream of Chat Completions. A client that does not see `[DONE]` sees an error. */
export const respond = (
  head: ChatHead,
  options: ChatOptions,
  frames: FollowedPlan["frames"]
): HttpServerResponse.HttpServerResponse => {
  const chunks = new ChatChunks(head, options)
  return SseAnswer.translated({
    plan_id: head.plan_id,
    frames,
    first: chunks.first,
    next: (frame) => chunks.next(frame),
    isCut: () => chunks.isCut,
    end: (why) => {
      const { code, message } = SseAnswer.brokenOff(why)
      return chunks.fail(code, message)
    }
  })
}
