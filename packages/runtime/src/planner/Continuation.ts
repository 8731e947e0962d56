import type { MessagePart } from "@bowline/domain/session/Message"
import type { FinishReason } from "../provider/Provider.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import type { PlacedCall } from "../asking/Assembly.ts"

/** The answer of a step so far, with its continuations. */
export interface Answer {
  readonly finish: FinishReason
  readonly text: string
  readonly parts: ReadonlyArray<MessagePart>
  /** Those that may be made. */
  readonly calls: ReadonlyArray<PlacedCall>
  /** Why other calls cannot be made. */
  readonly dropped: ReadonlyArray<string>
  /** The caller's limit has cut it, and not in a call: it ends the plan. */
  readonly isEnough: boolean
}

/** How often a step was continued, and why. */
export interface Continued {
  readonly length: number
  readonly pause: number
  readonly empty: number
}

export const notContinued: Continued = { length: 0, pause: 0, empty: 0 }

const limits: Continued = { length: 3, pause: 6, empty: 1 }

const goOn: ReadonlyArray<Entry> = [
  { role: "user", parts: [{ type: "text", text: "Go on exactly where you stopped. Repeat nothing." }] }
]

const nudges: Record<keyof Continued, ReadonlyArray<Entry>> = {
  length: goOn,
  // What the vendor's own tools did before the pause is not kept, and newer models refuse a request that ends with bare text of theirs.
  pause: goOn,
  empty: [{ role: "user", parts: [{ type: "text", text: "Your answer was empty. Answer in text, or call a tool." }] }]
}

/** Messages that tell the model which of its calls were dropped. */
export const corrections = (dropped: ReadonlyArray<string>): ReadonlyArray<Entry> =>
  dropped.map((reason) => ({
    role: "user",
    parts: [{ type: "text", text: `A tool call of yours was not made: ${reason}. Make it again if you need it.` }]
  }))

/** Whether the provider brought the answer to its end. The calls of any other answer are never made. */
export const isWhole = (finish: FinishReason): boolean => ["stop", "tool_calls", "other"].includes(finish)

/** Whether a whole answer has nothing that could be used: neither text nor a call that may be made. */
export const isEmpty = ({ finish, text, calls }: Answer): boolean =>
  isWhole(finish) && text.trim() === "" && calls.length === 0

/** What to add to the question to continue an answer that was cut at its limit, paused or empty; undefined if the step ends. */
export const next = (
  answer: Answer,
  continued: Continued
): { readonly ask: ReadonlyArray<Entry>; readonly continued: Continued } | undefined => {
  const why = isEmpty(answer) ? "empty" : answer.finish
  if (answer.isEnough || (why !== "length" && why !== "pause" && why !== "empty")) return undefined
  if (continued[why] >= limits[why]) return undefined
  const ask = why === "empty" ? [...corrections(answer.dropped), ...nudges.empty] : nudges[why]
  return { ask, continued: { ...continued, [why]: continued[why] + 1 } }
}
