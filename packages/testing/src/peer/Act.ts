import { Duration, type Schema } from "effect"

type JsonObject = { readonly [key: string]: Schema.Json }

/** A part of a message or an artifact, as A2A 0.3 and bindu write it. */
export type Part = { readonly kind: string; readonly [key: string]: Schema.Json }

/** A text. */
export const text = (text: string): Part => ({ kind: "text", text })
/** Structured data. */
export const data = (data: JsonObject): Part => ({ kind: "data", data })
/** A file: `{name, mimeType, bytes}` with base64 bytes, or `{name, mimeType, uri}`. */
export const file = (file: JsonObject): Part => ({ kind: "file", file })

/**
 * What a peer does with a task, in order. Only `Pass` takes time. After the last act the task stays as it is.
 *
 * @example
 * ```ts
 * import { type Act, appends, becomes, completes, data, fails, file, produces, replies, says, stays, stuck, text, works } from "@bowline/testing/peer/Act"
 *
 * // One that works for a minute, says so, and gives an artifact in two pieces.
 * export const slow: ReadonlyArray<Act> = [
 *   works("1 minute"),
 *   says("Half way"),
 *   produces([text("A bowline"), data({ knots: 1 }), file({ uri: "https://example.com/knot.png" })]),
 *   appends(" holds."),
 *   completes()
 * ]
 * // One that never ends, one that asks back, and one that fails.
 * export const hangs: ReadonlyArray<Act> = [stays("1 second"), stuck]
 * export const asks: ReadonlyArray<Act> = [becomes("input-required", "Which knot?")]
 * export const broken: ReadonlyArray<Act> = [fails("No rope")]
 * // One that answers without a task.
 * export const answers: ReadonlyArray<Act> = [replies("It holds.")]
 * ```
 */
export type Act =
  | { readonly _tag: "Pass"; readonly duration: Duration.Duration; readonly state?: string }
  | {
      readonly _tag: "Become"
      readonly state: string
      readonly parts: ReadonlyArray<Part>
      readonly metadata?: JsonObject
    }
  | { readonly _tag: "Produce"; readonly parts: ReadonlyArray<Part>; readonly append: boolean }
  | { readonly _tag: "Reply"; readonly parts: ReadonlyArray<Part> }

const partsOf = (content: string | ReadonlyArray<Part> | undefined): ReadonlyArray<Part> =>
  content === undefined ? [] : typeof content === "string" ? [text(content)] : content

/** Time passes in the state `working`. The message of the status stays. */
export const works = (duration: Duration.Input): Act => ({ ...stays(duration), state: "working" })

/** Time passes, in whatever state the task is. */
export const stays = (duration: Duration.Input): Act & { readonly _tag: "Pass" } => ({
  _tag: "Pass",
  duration: Duration.fromInputUnsafe(duration)
})

/** Stays in the state `working` for ever: later acts are never reached. */
export const stuck: Act = { _tag: "Pass", duration: Duration.infinity, state: "working" }

/** Any state, known or not, with a message of the status or without. `metadata` is the message's. */
export const becomes = (state: string, content?: string | ReadonlyArray<Part>, metadata?: JsonObject): Act => ({
  _tag: "Become",
  state,
  parts: partsOf(content),
  ...(metadata !== undefined && { metadata })
})

/** A message of the status, at work. The one before it moves to the history. */
export const says = (content: string | ReadonlyArray<Part>): Act => becomes("working", content)

/** An artifact of its own. */
export const produces = (content: string | ReadonlyArray<Part>): Act => ({
  _tag: "Produce",
  parts: partsOf(content),
  append: false
})

/** More parts of the artifact that was produced last. */
export const appends = (content: string | ReadonlyArray<Part>): Act => ({
  _tag: "Produce",
  parts: partsOf(content),
  append: true
})

/** The end of the task, with a message of the status or without. */
export const completes = (content?: string | ReadonlyArray<Part>): Act => becomes("completed", content)
/** Ends the task as `failed`. */
export const fails = (why?: string): Act => becomes("failed", why)

/** Answers the send with a message instead of a task. It has to be the only act. */
export const replies = (content: string | ReadonlyArray<Part>): Act => ({ _tag: "Reply", parts: partsOf(content) })
