import { assert } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Layer, Option, Random, Stream } from "effect"
import type { AttemptTimers } from "../../src/provider/Attempt.ts"
import { Provider, type ProviderPart, type ProviderRequest } from "../../src/provider/Provider.ts"
import type { Attempt, CredentialLedger } from "./CredentialLedger.ts"
import { type Blame, type Fault, faults } from "./Fault.ts"

/** Nothing else in these tests comes at a time with a 9 at its end, so that it is clear what was first. */
export const timers = {
  firstToken: Duration.millis(3_999),
  idle: Duration.millis(2_999),
  total: Duration.millis(19_999)
} satisfies AttemptTimers

const firstToken = Duration.toMillis(timers.firstToken)
const idle = Duration.toMillis(timers.idle)
const total = Duration.toMillis(timers.total)

const cooldown: Blame = { of: "model_on_credential", for: "cooldown" }

/** An answer: parts, each behind a wait, and then an end, or silence. */
interface Plot {
  readonly parts: ReadonlyArray<readonly [wait: number, part: ProviderPart]>
  readonly ends: Fault | "finished" | "silent"
}

const text: ProviderPart = { _tag: "TextDelta", delta: "x" }
const used: ProviderPart = {
  _tag: "UsageReported",
  usage: { input_tokens: 1, output_tokens: 1, cached_input_tokens: 0, reasoning_tokens: 0 }
}
const finished = (reason: Extract<ProviderPart, { readonly _tag: "Finished" }>["reason"]): ProviderPart => ({
  _tag: "Finished",
  reason,
  inferred: false
})
const call: ProviderPart = { _tag: "ToolCall", call: 0, id: "call_1", name: "bob_ask", arguments: '{"input":"hi"}' }

export const pick = <A>(...all: readonly [A, ...ReadonlyArray<A>]): Effect.Effect<A> => Random.choice(all)

/** In steps of 10 ms. */
export const millis = (below: number): Effect.Effect<number> =>
  Effect.map(Random.nextIntBetween(0, below / 10), (steps) => steps * 10)

const drawPlot = Effect.gen(function* (): Effect.fn.Return<Plot> {
  const wait = yield* Effect.flatMap(pick(20, 20, 500, 2_500), millis)
  const kind = yield* Random.next
  if (kind < 0.4)
    return {
      parts: [
        [wait, text],
        [wait, used],
        [0, finished("stop")]
      ],
      ends: "finished"
    }
  if (kind < 0.55)
    return {
      parts: [
        [wait, text],
        [10, call],
        [0, finished("tool_calls")]
      ],
      ends: "finished"
    }
  if (kind < 0.6) {
    const reason = yield* pick("length" as const, "pause" as const, "stop" as const)
    return {
      parts: [
        [wait, reason === "stop" ? used : text],
        [wait, finished(reason)]
      ],
      ends: "finished"
    }
  }
  if (kind < 0.68) {
    const begun = yield* pick<Plot["parts"]>(
      [],
      [],
      [[wait, used]],
      [[wait, text]],
      [
        [wait, text],
        [wait, used]
      ]
    )
    return { parts: begun, ends: "silent" }
  }
  if (kind < 0.7) return { parts: Array.from({ length: 20 }, () => [1_500, text] as const), ends: "silent" }
  const fault = faults[yield* Random.nextIntBetween(0, faults.length)]
  const begun = yield* pick<Plot["parts"]>([[wait, used]], [[wait, text]])
  return { parts: begun, ends: fault ?? "silent" }
})

const isContent = ({ _tag }: ProviderPart): boolean => _tag === "TextDelta"

/** The plan that asks, by its question; nothing for a call that asks for a summary. */
const planOf = ({ messages }: ProviderRequest): string =>
  messages
    .filter(({ role }) => role === "user")
    .flatMap(({ parts }) => parts)
    .flatMap((part) => (part.type === "text" && part.text.startsWith("plan ") ? [part.text] : []))
    .at(-1) ?? ""

/** A credential whose provider answers and fails at random, and that enters it in the ledger. */
export const layer = (credential: string, ledger: CredentialLedger, deadlines: ReadonlyMap<string, number>) => {
  const stream = Effect.fnUntraced(function* (request: ProviderRequest) {
    const clock = yield* Clock.Clock
    const now = () => clock.currentTimeMillisUnsafe()
    const began = now()
    const plan = planOf(request)
    const attempt: Attempt = { plan, credential, model: `scripted/${request.model}` }
    ledger.begins(attempt, began)
    const { parts, ends } = yield* drawPlot
    let contentAt: number | undefined
    let heardAt = began

    const finish = parts.at(-1)?.[1]
    const goesOn = finish?._tag === "Finished" && (finish.reason === "length" || finish.reason === "pause")
    // A summary that takes too long is not the credential's fault.
    const blame = plan === "" ? undefined : cooldown
    const isEmpty = !parts.some(([, part]) => isContent(part))

    /** Who has ended an attempt that the provider has not. */
    const cut = () => {
      if (now() - began === total) return ledger.fails(attempt, "attempt_timeout", undefined, now())
      if (contentAt === undefined && now() - began === firstToken) {
        return ledger.fails(attempt, "first_token_timeout", blame, now())
      }
      if (contentAt !== undefined && now() - contentAt === idle) {
        return ledger.fails(attempt, "idle_timeout", blame, now())
      }
      const isDeadline = now() === deadlines.get(plan)
      if (isDeadline && now() - heardAt >= idle) ledger.fails(attempt, "idle_timeout", cooldown, now())
    }

    const said = Stream.fromIterable(parts).pipe(
      Stream.mapEffect(([wait, part]) =>
        Effect.as(Effect.delay(Effect.void, wait), part).pipe(
          Effect.tap(() =>
            Effect.sync(() => {
              heardAt = now()
              if (isContent(part)) contentAt = now()
            })
          )
        )
      )
    )
    const end = (): Stream.Stream<ProviderPart, ReturnType<Fault["happens"]>> => {
      if (ends === "finished") return Stream.empty
      return ends === "silent" ? Stream.never : Stream.fail(ends.happens(now()))
    }
    return Stream.concat(said, Stream.suspend(end)).pipe(
      Stream.onExit((exit) =>
        Effect.sync(() => {
          if (Exit.isSuccess(exit)) return ledger.succeeds(attempt, goesOn || isEmpty, now())
          const failure = Option.getOrUndefined(Exit.findErrorOption(exit))
          if (failure === undefined || typeof ends === "string") return cut()
          assert.strictEqual(failure.reason._tag, ends.reason)
          const isOfRequest = ends.isUnexplained === true && ledger.isTrusted(credential, now())
          ledger.fails(attempt, ends.reason, isOfRequest ? undefined : ends.blame, now())
        })
      )
    )
  })
  return Layer.succeed(Provider, { name: "scripted", stream: (request) => Stream.unwrap(stream(request)) })
}
