import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { FinishReason, ProviderPart } from "@bowline/runtime/provider/Provider"
import { cut, reset, split } from "../http/Move.ts"
import * as Turn from "./Turn.ts"

/** What an attempt must give for a turn, in every implementation of the provider port. */
export interface ProviderCase {
  readonly title: string
  readonly turn: Turn.Turn
  /** As `shown` gives them. */
  readonly parts: ReadonlyArray<ProviderPart>
  /** The reason of the failure; without one the attempt finishes. */
  readonly failure?: ProviderErrorReason["_tag"]
}

/** The parts that a case is about: without fragments of calls, bytes without meaning, and the name of the model, which not every server gives. */
export const shown = (parts: ReadonlyArray<ProviderPart>): ReadonlyArray<ProviderPart> =>
  parts.flatMap((part) => {
    if (part._tag === "ToolCallFragment" || part._tag === "Heard") return []
    return part._tag === "Finished" ? [finished(part.reason, part.inferred)] : [part]
  })

const text = (delta: string): ProviderPart => ({ _tag: "TextDelta", delta })
const call = (call: number, id: string, name: string, args: string): ProviderPart => ({
  _tag: "ToolCall",
  call,
  id,
  name,
  arguments: args
})
const finished = (reason: FinishReason, inferred = false): ProviderPart => ({ _tag: "Finished", reason, inferred })
const tokens = { input_tokens: 12, output_tokens: 5, cached_input_tokens: 8, reasoning_tokens: 3 }

const deltas = Array.from({ length: 32 }, (_, index) => `word ${index} `)

const quoted = "stripe_list_billing_meters"

/** Refusals of requests with a tool of that name. */
const quotations: ReadonlyArray<readonly [what: string, failure: Turn.ProviderFailure]> = [
  [
    "with a code",
    {
      message: `Invalid schema for function '${quoted}': billing has no type`,
      code: "invalid_function_parameters",
      param: "tools[0].function.parameters"
    }
  ],
  ["with a field", { message: `Missing billing in ${quoted}`, param: "tools[0].function" }],
  ["in words only", { message: `The tool '${quoted}' is defined twice`, type: "invalid_request_error" }]
]

/** Refusals of what a request says. */
const flagged: ReadonlyArray<readonly [what: string, failure: Partial<Turn.ProviderFailure>]> = [
  [
    "with the reasons of a moderation",
    { message: "This model refuses your billing plan", metadata: { reasons: ["violence"], flagged_input: "credits" } }
  ],
  ["about a flagged input", { message: "Your chosen model requires moderation, and your input was flagged" }],
  ["about a policy of content", { message: "Blocked by our content policy. Try another model" }],
  ["about safety", { code: "safety_violation", message: "Not in your plan" }]
]

/** The stream contract of `docs/reference/provider.md`, as far as a scripted answer shows it. */
export const providerCases: ReadonlyArray<ProviderCase> = [
  {
    title: "gives the deltas and the usage, and then that it is finished",
    turn: [Turn.say("one "), Turn.say("two"), Turn.usage(tokens)],
    parts: [text("one "), text("two"), { _tag: "UsageReported", usage: tokens }, finished("stop")]
  },
  {
    title: "gives all of an answer that comes in one write",
    turn: [Turn.oneWrite, ...deltas.map(Turn.say)],
    parts: [...deltas.map(text), finished("stop")]
  },
  {
    title: "puts characters together that came in two pieces",
    turn: [split(1), Turn.say("5 €, 🪢")],
    parts: [text("5 €, 🪢"), finished("stop")]
  },
  {
    title: "gives reasoning as such",
    turn: [Turn.think("hm"), Turn.say("yes")],
    parts: [{ _tag: "ReasoningDelta", delta: "hm" }, text("yes"), finished("stop")]
  },
  {
    title: "gives calls whole, in their order, once the answer is finished",
    turn: [
      Turn.callTool("weather_now", { city: "Bern" }, { id: "a" }),
      Turn.callTool("weather_now", '{"city": ', { id: "b" }),
      Turn.usage(tokens)
    ],
    parts: [
      { _tag: "UsageReported", usage: tokens },
      call(0, "a", "weather_now", '{"city":"Bern"}'),
      call(1, "b", "weather_now", '{"city": '),
      finished("tool_calls")
    ]
  },
  {
    title: "never gives a call of an answer that was cut",
    turn: [Turn.say("let me see"), Turn.callTool("weather_now", { city: "Bern" }), cut],
    parts: [text("let me see")],
    failure: "transport"
  },
  {
    title: "fails when the connection is reset",
    turn: [Turn.say("one"), split(1), reset],
    parts: [text("one")],
    failure: "transport"
  },
  {
    title: "is finished though the connection is cut after the provider said so",
    turn: [Turn.say("one"), Turn.finish("stop"), cut],
    parts: [text("one"), finished("stop")]
  },
  {
    title: "does not believe a good end of the stream without a finish",
    turn: [Turn.say("one"), Turn.usage(tokens), Turn.noFinish],
    parts: [text("one"), { _tag: "UsageReported", usage: tokens }],
    failure: "stream_truncated"
  },
  {
    title: "infers from an end marker that a text is finished",
    turn: [Turn.say("one"), Turn.doneOnly],
    parts: [text("one"), finished("stop", true)]
  },
  {
    title: "infers nothing from an end marker behind the fragment of a call",
    turn: [Turn.say("one"), Turn.callTool("weather_now", {}), Turn.doneOnly],
    parts: [text("one")],
    failure: "stream_truncated"
  },
  {
    title: "infers nothing from an end marker without a text",
    turn: [Turn.doneOnly],
    parts: [],
    failure: "stream_truncated"
  },
  ...(["length", "content_filter", "other"] as const).map((reason): ProviderCase => ({
    title: `tells the finish reason ${reason} from the others`,
    turn: [Turn.say("one"), Turn.finish(reason)],
    parts: [text("one"), finished(reason)]
  })),
  {
    title: "tells a refusal from an answer",
    turn: [Turn.refuse("I "), Turn.refuse("won't")],
    parts: [text("I "), text("won't"), finished("refusal")]
  },
  {
    title: "overhears comments",
    turn: [Turn.raw(": ping\n\n"), Turn.say("one"), Turn.raw(":\n\n")],
    parts: [text("one"), finished("stop")]
  },
  {
    title: "fails on what is not its format",
    turn: [Turn.say("one"), Turn.raw("data: {oops\n\n"), Turn.say("two")],
    parts: [text("one")],
    failure: "stream_corrupt"
  },
  {
    title: "fails on an error in the midst of the answer",
    turn: [Turn.say("one"), Turn.errorChunk({ message: "Try later", code: 503 })],
    parts: [text("one")],
    failure: "server_error"
  },
  ...(
    [
      [400, "bad_request"],
      [401, "auth"],
      [402, "billing"],
      [404, "model_unavailable"],
      [429, "rate_limited"],
      [500, "server_error"],
      [529, "overloaded"]
    ] as const
  ).map(([status, failure]): ProviderCase => ({
    title: `fails on a status ${status}`,
    turn: [Turn.error(status)],
    parts: [],
    failure
  })),
  ...quotations.flatMap(([what, failure]): ReadonlyArray<ProviderCase> => [
    {
      title: `blames the request, and no key, for a 400 that quotes its tools ${what}`,
      turn: [Turn.error(400, failure)],
      parts: [],
      failure: "bad_request"
    },
    {
      title: `blames the request, and no key, for an error in the midst of the answer that quotes its tools ${what}`,
      turn: [Turn.say("one"), Turn.errorChunk({ type: "invalid_request_error", ...failure })],
      parts: [text("one")],
      failure: "bad_request"
    }
  ]),
  ...flagged.map(([what, failure]): ProviderCase => ({
    title: `blames the request, and neither key nor model, for a 403 ${what}`,
    turn: [Turn.error(403, failure)],
    parts: [],
    failure: "bad_request"
  })),
  {
    title: "fails on an account without credit under a status 400",
    turn: [Turn.error(400, { message: "Your credit balance is too low to use the API" })],
    parts: [],
    failure: "billing"
  },
  {
    title: "fails on a used-up quota under a status 400",
    turn: [Turn.error(400, { code: "insufficient_quota" })],
    parts: [],
    failure: "billing"
  },
  {
    title: "fails on a prompt that is too long",
    turn: [Turn.error(400, { code: "context_length_exceeded", message: "Too long" })],
    parts: [],
    failure: "context_overflow"
  }
]
