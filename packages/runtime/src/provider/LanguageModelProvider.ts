import type { Usage } from "@bowline/domain/plan/Usage"
import {
  ProviderError,
  type ProviderErrorReason,
  ServerError,
  StreamTruncated,
  Unknown
} from "@bowline/domain/provider/ProviderError"
import { Cause, Clock, Effect, Layer, Stream } from "effect"
import { LanguageModel, type Response, type Tool } from "effect/ai"
import { withOwnIds } from "./CallIds.ts"
import { classifyAi, classifyPart } from "./internal/AiFailure.ts"
import { toPrompt, toToolkit } from "./internal/AiPrompt.ts"
import { type FinishReason, Provider, type ProviderPart, type ProviderRequest, type ToolCall } from "./Provider.ts"

/** The reasons that mean that the answer is finished. */
const finishReasons: Readonly<Partial<Record<Response.FinishReason, FinishReason>>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
  pause: "pause",
  other: "other"
}

const truncated = new StreamTruncated({ message: "The answer ended before the model said that it is finished" })

/**
 * Any `LanguageModel` of `effect/ai` as the provider `name`. It always asks this one model with its own settings: the model and
 * the limit of the answer in the request do not count. Reasoning is shown, and not sent again.
 *
 * The provider keeps the contract as far as the model's adapter does. It cannot detect an adapter that makes a finish of every
 * end of a stream: only an end without a `finish`, and a `finish` for an unknown reason, are `stream_truncated`. A failure is
 * classified by its `AiError` and the response in it. An abort in the model's own code is `unknown`, since nobody can know who
 * caused it. Usage comes with the finish: a failed attempt counts none. Neither the adapter nor the client below it may retry,
 * and both must stop when interrupted.
 *
 * @example
 * ```ts
 * import { Plans } from "@bowline/runtime/plan/Plans"
 * import * as LanguageModelProvider from "@bowline/runtime/provider/LanguageModelProvider"
 * import { Layer } from "effect"
 *
 * // It leaves open the `LanguageModel`, which the app has anyway.
 * export const App = Plans.layerMemory({ model: "own/model" }).pipe(
 *   Layer.provide(LanguageModelProvider.layer({ name: "own" }))
 * )
 * ```
 */
export const layer = (options: {
  /** What stands in front of the model in `provider/model`. */
  readonly name: string
}): Layer.Layer<Provider, never, LanguageModel.LanguageModel> =>
  Layer.effect(
    Provider,
    Effect.map(LanguageModel.LanguageModel, (model) => ({
      name: options.name,
      stream: (request) => Stream.unwrap(Effect.map(Clock.Clock, (clock) => attempt(model, request, clock)))
    }))
  )

const attempt = (
  model: typeof LanguageModel.LanguageModel.Service,
  request: ProviderRequest,
  clock: Clock.Clock
): Stream.Stream<ProviderPart, ProviderError> => {
  const answer = new Answer()
  const now = () => clock.currentTimeMillisUnsafe()
  return model
    .streamText({
      prompt: toPrompt(request),
      toolkit: toToolkit(request),
      toolChoice: request.toolChoice,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    })
    .pipe(
      Stream.mapError(({ reason }) => classifyAi(reason, now())),
      Stream.catchCauseIf(Cause.hasInterruptsOnly, () =>
        Stream.fail(new Unknown({ message: "The model's own code was interrupted" }))
      ),
      Stream.flatMap((part) =>
        part.type === "error" ? Stream.fail(classifyPart(part.error, now())) : answer.take(part)
      ),
      Stream.takeUntil((part) => part._tag === "Finished"),
      Stream.concat(Stream.suspend(() => (answer.isFinished ? Stream.empty : Stream.fail(truncated)))),
      Stream.mapError((reason) => new ProviderError({ reason }))
    )
}

type Part = Response.StreamPart<Record<string, Tool.Any>, "deferred">
type Taken = Stream.Stream<ProviderPart, ProviderErrorReason>

/** The state of one answer: turns parts of `effect/ai` into ours. */
class Answer {
  readonly #calls: Array<Omit<ToolCall, "_tag">> = []
  /** The ids of calls, in the order in which they began. */
  readonly #begun: Array<string> = []
  isFinished = false

  take(part: Part): Taken {
    switch (part.type) {
      case "text-delta":
        return Stream.succeed({ _tag: "TextDelta", delta: part.delta })
      case "reasoning-delta":
        return Stream.succeed({ _tag: "ReasoningDelta", delta: part.delta })
      case "tool-params-start":
      case "tool-params-delta":
        return this.#fragment(this.#placeOf(part.id))
      case "tool-call":
        // The provider makes this call itself.
        if (part.providerExecuted) return Stream.empty
        return this.#call(part.id, part.name, asText(part.params))
      case "finish":
        return this.#finish(part)
      default:
        return Stream.empty
    }
  }

  /** A call that did not come in pieces begins here; so does a second call with the same id. */
  #call(id: string, name: string, args: string): Taken {
    const isTaken = this.#calls.some((call) => call.id === id)
    const call = isTaken ? this.#begun.push(id) - 1 : this.#placeOf(id)
    this.#calls.push({ call, id, name, arguments: args })
    return this.#fragment(call)
  }

  #placeOf(id: string): number {
    const place = this.#begun.indexOf(id)
    return place === -1 ? this.#begun.push(id) - 1 : place
  }

  #fragment(call: number): Taken {
    return Stream.succeed({ _tag: "ToolCallFragment", call })
  }

  #finish({ reason, usage }: Response.FinishPart): Taken {
    const reported: ProviderPart = { _tag: "UsageReported", usage: fromUsage(usage) }
    const finish = finishReasons[reason]
    if (finish === undefined) {
      const failure = reason === "error" ? new ServerError({ message: "The model ended with an error" }) : truncated
      return Stream.concat(Stream.succeed(reported), Stream.fail(failure))
    }
    this.isFinished = true
    return Stream.fromArray([
      reported,
      ...withOwnIds(this.#calls),
      { _tag: "Finished" as const, reason: finish, inferred: false }
    ])
  }
}

const asText = (params: unknown): string => (typeof params === "string" ? params : JSON.stringify(params ?? {}))

const fromUsage = ({ inputTokens: input, outputTokens: output }: Response.Usage): Usage => ({
  input_tokens: input.total ?? (input.uncached ?? 0) + (input.cacheRead ?? 0) + (input.cacheWrite ?? 0),
  output_tokens: output.total ?? (output.text ?? 0) + (output.reasoning ?? 0),
  cached_input_tokens: input.cacheRead ?? 0,
  reasoning_tokens: output.reasoning ?? 0
})
