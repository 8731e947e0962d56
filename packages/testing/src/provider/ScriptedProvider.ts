import {
  ProviderError,
  StreamCorrupt,
  StreamTruncated,
  Transport,
  type ProviderErrorReason
} from "@bowline/domain/provider/ProviderError"
import { Provider, type ProviderPart } from "@bowline/runtime/provider/Provider"
import { classify } from "@bowline/runtime/unstable/provider/Classification"
import * as FailureBody from "@bowline/runtime/unstable/provider/FailureBody"
import { Clock, Context, Effect, Exit, Layer, Option, Stream, type Duration } from "effect"
import { type ExchangeLog, make as makeLog } from "../exchange/ExchangeLog.ts"
import { fragments, withFinish } from "./internal/withFinish.ts"
import { type Asked, fromRequest, player, type Script } from "./Script.ts"
import type { ProviderFailure, Turn, TurnMove } from "./Turn.ts"

export type { Asked, ExchangeLog, Script }

type Ending = "finished" | "failed" | "interrupted"

interface Options {
  /** What stands in front of the model in `provider/model`. */
  readonly name?: string
}

/**
 * The provider port played from a script, without a wire, on the `Clock`. Faults are the errors that the contract gives
 * them: a `cut` and a `reset` are `transport`, an end without a finish is `stream_truncated`, 429 is `rate_limited`.
 *
 * @example
 * ```ts
 * import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
 * import { say } from "@bowline/testing/provider/Turn"
 * import { Effect } from "effect"
 *
 * export const Model = ScriptedProvider.layer([[say("It holds.")]])
 *
 * // What the planner has asked the model by now.
 * export const questions = Effect.flatMap(ScriptedProvider, ({ asked }) => asked.all)
 * ```
 */
export class ScriptedProvider extends Context.Service<
  ScriptedProvider,
  { readonly asked: ExchangeLog<Asked, Ending> }
>()("@bowline/testing/provider/ScriptedProvider") {
  /** Records the requests. */
  static readonly layer = (script: Script, options?: Options): Layer.Layer<Provider | ScriptedProvider> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const asked = yield* makeLog<Asked, Ending>()
        const provider = yield* make(script, options)
        const stream: Provider["Service"]["stream"] = (request) =>
          asked.begin(fromRequest(request)).pipe(
            Effect.map((end) => Stream.onExit(provider.stream(request), (exit) => end(endingOf(exit)))),
            Stream.unwrap
          )
        return Context.make(Provider, { ...provider, stream }).pipe(Context.add(ScriptedProvider, { asked }))
      })
    )

  /** Records nothing, for a process that runs for long. */
  static readonly layerProvider = (script: Script, options?: Options): Layer.Layer<Provider> =>
    Layer.effect(Provider, make(script, options))
}

const endingOf = (exit: Exit.Exit<unknown, ProviderError>): Ending => {
  if (Exit.isSuccess(exit)) return "finished"
  return Option.isSome(Exit.findErrorOption(exit)) ? "failed" : "interrupted"
}

const make = (script: Script, options: Options = {}): Effect.Effect<Provider["Service"]> =>
  Effect.map(player(script), (turnFor) => ({
    name: options.name ?? "scripted",
    stream: (request) =>
      Stream.unwrap(
        Clock.clockWith((clock) =>
          Effect.sync(() => play(turnFor(fromRequest(request)), () => clock.currentTimeMillisUnsafe()))
        )
      )
  }))

/** The moves that end a turn: a reader sees nothing after them. */
const isLast = (move: TurnMove): boolean =>
  ["Break", "ErrorChunk", "Refused"].includes(move._tag) || (move._tag === "Raw" && !move.text.startsWith(":"))

const play = (written: Turn, now: () => number): Stream.Stream<ProviderPart, ProviderError> => {
  const turn = withFinish(written)
  const last = turn.findIndex(isLast)
  const moves = last === -1 ? turn : turn.slice(0, last)
  const begun = moves.filter(({ _tag }) => _tag === "Call")
  let delay: Duration.Input | undefined
  let isFinished = false
  const parts = Stream.flatMap(Stream.fromIterable(moves), (move): Stream.Stream<ProviderPart> => {
    if (move._tag === "Wait") return Stream.fromEffectDrain(isFinished ? patiently(move.effect) : move.effect)
    if (move._tag === "Slow") delay = move.delay
    isFinished ||= move._tag === "Finish"
    const pause = delay
    const given = Stream.fromArray(partsOf(move, begun))
    return pause === undefined ? given : Stream.tap(given, () => Effect.sleep(pause))
  })
  return Stream.concat(
    parts,
    Stream.suspend(() => ending(moves, turn[last], now()))
  )
}

/** Behind the finish, an attempt waits for the usage, and no longer. */
const patiently = (effect: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.timeoutOrElse(effect, { duration: "1 second", orElse: () => Effect.void })

const partsOf = (move: TurnMove, begun: ReadonlyArray<TurnMove>): ReadonlyArray<ProviderPart> => {
  switch (move._tag) {
    case "Say":
    case "Refuse":
      return [{ _tag: "TextDelta", delta: move.text }]
    case "Think":
      return [{ _tag: "ReasoningDelta", delta: move.text }]
    case "Call":
      return fragments(move.arguments).map(() => ({ _tag: "ToolCallFragment", call: begun.indexOf(move) }))
    case "Report":
      return [{ _tag: "UsageReported", usage: move.usage }]
    default:
      return []
  }
}

const ending = (moves: Turn, last: TurnMove | undefined, now: number): Stream.Stream<ProviderPart, ProviderError> => {
  const finish = moves.find((move) => move._tag === "Finish")
  const calls = moves.filter((move) => move._tag === "Call")
  if (finish !== undefined) {
    return Stream.fromArray([...calls.map(whole), { _tag: "Finished", reason: finish.reason, inferred: false }])
  }
  const isDone = moves.some(({ _tag }) => _tag === "Done")
  if (isDone && calls.length === 0 && moves.some(({ _tag }) => _tag === "Say")) {
    return Stream.succeed({ _tag: "Finished", reason: "stop", inferred: true })
  }
  return Stream.fail(new ProviderError({ reason: failureOf(last, now) }))
}

const whole = (call: Extract<TurnMove, { readonly _tag: "Call" }>, index: number): ProviderPart =>
  call.name === ""
    ? { _tag: "CallDropped", reason: "it had no name" }
    : { _tag: "ToolCall", call: index, id: call.id ?? `call_${index}`, name: call.name, arguments: call.arguments }

/** What a server says, as the wires of OpenAI and Anthropic have it. */
const reasonOf = (
  status: number,
  error: ProviderFailure,
  headers: Readonly<Record<string, string>>,
  now: number
): ProviderErrorReason => classify({ status, headers }, FailureBody.fromJson({ error }), now)

const failureOf = (last: TurnMove | undefined, now: number): ProviderErrorReason => {
  switch (last?._tag) {
    case "Break":
      return new Transport({ kind: "reset", message: "The connection was closed before the answer was whole" })
    case "Refused":
      return reasonOf(last.status, last.error, last.headers, now)
    case "ErrorChunk":
      return reasonOf(200, last.error, {}, now)
    case "Raw":
      return new StreamCorrupt({ message: "The provider sent what is not its format" })
    default:
      return new StreamTruncated({ message: "The answer ended before it was finished" })
  }
}
