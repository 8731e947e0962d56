import { ping } from "@bowline/protocol/stream/SseFrame"
import type { PlanReader, ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Effect, Stream } from "effect"
import type { HttpServerResponse } from "effect/http"
import * as SseAnswer from "../http/SseAnswer.ts"
import { ChatChunks, type ChatHead, type ChatOptions } from "./ChatChunks.ts"

const broken = "The gateway can no longer read the plan: it may still run"

/**
 * The frames of a plan as a stream of Chat Completions. It begins at once, and never ends in silence: a client that does not see `[DONE]`
 * sees an error.
 */
export const respond = (
  head: ChatHead,
  options: ChatOptions,
  frames: PlanReader,
  isDraining: Effect.Effect<boolean>
): HttpServerResponse.HttpServerResponse => {
  const chunks = new ChatChunks(head, options)
  const toText = (item: ReaderItem): string => {
    if (item === "reconnect") return ""
    return item === "ping" ? ping : chunks.next(item)
  }
  const bytes = (text: string) => Buffer.from(text)
  const events = SseAnswer.toTexts(frames, (items) => items.map(toText).join("")).pipe(
    Stream.takeUntil(() => chunks.isCut),
    Stream.catchCause((cause) =>
      Stream.fromEffectDrain(Effect.annotateLogs(Effect.logError("stream_failed", cause), { plan_id: head.plan_id }))
    )
  )
  const end = Stream.fromEffect(
    Effect.map(isDraining, (draining) =>
      bytes(draining ? chunks.fail("draining", "The gateway is shutting down") : chunks.fail("interrupted", broken))
    )
  )
  return SseAnswer.toResponse(Stream.succeed(bytes(chunks.first)).pipe(Stream.concat(events), Stream.concat(end)))
}
