import type { Usage } from "@bowline/domain/plan/Usage"
import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { Pace } from "../http/Move.ts"

/** One step of a scripted provider's answer. */
export type TurnMove =
  | { readonly _tag: "Say" | "Think" | "Refuse" | "Raw"; readonly text: string }
  | { readonly _tag: "Call"; readonly id: string | null | undefined; readonly name: string; readonly arguments: string }
  | { readonly _tag: "Report"; readonly usage: Usage }
  | { readonly _tag: "Finish"; readonly reason: FinishReason }
  | { readonly _tag: "NoFinish" | "Done" | "OneWrite" }
  | { readonly _tag: "ErrorChunk"; readonly error: ProviderFailure }
  | {
      readonly _tag: "Refused"
      readonly status: number
      readonly error: ProviderFailure
      readonly headers: Readonly<Record<string, string>>
    }
  | Pace

/** What stands under `error` in the body of a failure. */
export interface ProviderFailure {
  readonly message: string
  readonly type?: string
  readonly code?: string | number
  /** The field of the request that it is about. */
  readonly param?: string
  /** What OpenRouter adds. */
  readonly metadata?: object
}

/**
 * A provider's answer to one request. It finishes at its end (`tool_calls` if it calls a tool, else `stop`) unless it says
 * otherwise: with a finish of its own, `noFinish` or `doneOnly`.
 *
 * @example
 * ```ts
 * import { callTool, doneOnly, error, errorChunk, finish, noFinish, oneWrite, raw, refuse, say, think, type Turn, usage } from "@bowline/testing/provider/Turn"
 *
 * export const whole: Turn = [think("A knot …"), say("It holds."), usage({ output_tokens: 3 }), finish("stop")]
 * export const calls: Turn = [oneWrite, callTool("find_order", { order_id: 7 })]
 * export const refused: Turn = [refuse("I do not say that.")]
 * // What a provider must not be believed: no finish, no reason, no format.
 * export const broken: ReadonlyArray<Turn> = [[say("half"), noFinish], [say("half"), doneOnly], [raw("not JSON")]]
 * export const failing: ReadonlyArray<Turn> = [[error(429, {}, { "retry-after": "1" })], [errorChunk({ message: "Overloaded" })]]
 * ```
 */
export type Turn = ReadonlyArray<TurnMove>

/** One delta of text. */
export const say = (text: string): TurnMove => ({ _tag: "Say", text })

/** One delta of reasoning. */
export const think = (text: string): TurnMove => ({ _tag: "Think", text })

/** One delta of a refusal; the answer's finish is then `refusal`. */
export const refuse = (text: string): TurnMove => ({ _tag: "Refuse", text })

/**
 * A call of a tool, written in several fragments. Arguments in a string are sent as they are, parsable or not. An `id` of null
 * is not sent; an absent one is generated.
 */
export const callTool = (name: string, args: unknown, options?: { readonly id?: string | null }): TurnMove => ({
  _tag: "Call",
  id: options?.id,
  name,
  arguments: typeof args === "string" ? args : JSON.stringify(args)
})

/** Reports tokens. */
export const usage = (tokens: Partial<Usage>): TurnMove => ({
  _tag: "Report",
  usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0, ...tokens }
})

/** Finishes the answer. Moves after it are still sent. */
export const finish = (reason: Exclude<FinishReason, "refusal" | "pause">): TurnMove => ({ _tag: "Finish", reason })

/** The connection closes normally, without a finish. */
export const noFinish: TurnMove = { _tag: "NoFinish" }

/** The end marker of the wire, without a finish reason. */
export const doneOnly: TurnMove = { _tag: "Done" }

/** From here on everything goes in one write, made at the next wait or at the end. */
export const oneWrite: TurnMove = { _tag: "OneWrite" }

/** Raw bytes. Without a wire format, anything but a comment (`:`) is a corrupt stream. */
export const raw = (text: string): TurnMove => ({ _tag: "Raw", text })

/** An error in the middle of an answer with status 200. */
export const errorChunk = (error: ProviderFailure): TurnMove => ({ _tag: "ErrorChunk", error })

/** An answer with this status instead of a stream. Only waits may stand in front of it. */
export const error = (
  status: number,
  failure?: Partial<ProviderFailure>,
  headers: Readonly<Record<string, string>> = {}
): TurnMove => ({
  _tag: "Refused",
  status,
  error: { message: `A scripted error with status ${status}`, ...failure },
  headers
})
