import { EmptyAnswer, ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Duration, Effect, Random } from "effect"
import * as Attempt from "../provider/Attempt.ts"
import type { Provider, ProviderRequest } from "../provider/Provider.ts"
import { delayBeforeNext } from "../provider/RetryPolicy.ts"
import { type Entry, toldHistory } from "../session/LegalHistory.ts"
import { Assembly } from "./Assembly.ts"
import * as Continuation from "./Continuation.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "./PlansConfig.ts"

const textOf = (parts: ReadonlyArray<MessagePart>): string =>
  parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "")

const correctCall: Entry = {
  role: "user",
  parts: [{ type: "text", text: "The arguments of your last tool call were not valid JSON. Make the call again." }]
}

/** The same request, mended for an attempt behind one that failed for this reason. */
const mend = (request: ProviderRequest, reason: ProviderErrorReason): ProviderRequest => {
  if (reason._tag === "history_rejected") return { ...request, messages: toldHistory(request.messages) }
  return reason._tag === "tool_json" ? { ...request, messages: [...request.messages, correctCall] } : request
}

/** One answer of the provider, shown while it comes, out of as many attempts as it takes. */
export const ask = Effect.fnUntraced(function* (
  provider: Provider["Service"],
  config: PlansConfig["Service"],
  run: PlanRun,
  asked: ProviderRequest
): Effect.fn.Return<Continuation.Answer, ProviderError | StorageError> {
  const { journal, deadline, model } = run.given
  const step = run.steps
  const timers = { firstToken: config.firstTokenTimeout, idle: config.idleTimeout, total: config.attemptTimeout }
  const retries = { maxRetries: config.maxRetries, baseMs: Duration.toMillis(config.retryBase) }
  const mayCall = asked.toolChoice === "auto"

  /** Waits for the next attempt, if there is to be one; what was shown of the last one is taken back. */
  const backOff = Effect.fnUntraced(function* (
    assembly: Assembly,
    attempt: number,
    reason: ProviderErrorReason,
    kept: ReadonlyArray<MessagePart>
  ) {
    const error = new ProviderError({ reason })
    run.failures.push(reason)
    const timeLeft = deadline - (yield* Clock.currentTimeMillis)
    const delay_ms = delayBeforeNext(run.failures, retries, timeLeft, yield* Random.next)
    if (delay_ms === undefined) return yield* error
    if (assembly.isShown) journal.emit({ event: "text.retract", data: { step, attempt } })
    run.partialText = textOf(kept)
    const { code, message } = error
    const data = { step, attempt: attempt + 1, error: { code, message }, delay_ms, credential: null, model }
    journal.emit({ event: "retry", data })
    yield* Effect.annotateLogs(Effect.logWarning("provider_retry"), { error_type: error.type, attempt, delay_ms })
    yield* Effect.sleep(delay_ms).pipe(run.within("backoff"))
  })

  run.failures = []
  run.partialText = ""
  let request = asked
  let continued = Continuation.notContinued
  let kept: ReadonlyArray<MessagePart> = []
  for (let attempt = 1; ; attempt++) {
    const assembly = new Assembly(run, attempt, provider.name)
    const failure = yield* Attempt.run(provider.stream(request), timers, (parts) => {
      for (const part of parts) assembly.take(part)
      return journal.isCongested ? journal.flush : Effect.void
    }).pipe(
      run.within("provider"),
      Effect.ensuring(Effect.sync(() => run.countUsage())),
      Effect.as(undefined),
      Effect.catchTag("ProviderError", ({ reason }) => Effect.succeed(reason))
    )
    if (failure !== undefined) {
      yield* backOff(assembly, attempt, failure, kept)
      request = mend(request, failure)
      continue
    }
    kept = [...kept, ...assembly.parts]
    const { finish, calls } = assembly
    const answer = { finish, calls, parts: kept, text: textOf(kept) }
    const next = Continuation.next(answer, mayCall, continued)
    if (Continuation.isEmpty(answer, mayCall)) {
      const reason = new EmptyAnswer({ message: "The provider gave an empty answer" })
      run.failures.push(reason)
      if (next === undefined) return yield* new ProviderError({ reason })
    }
    if (next === undefined) return answer
    continued = next.continued
    request = { ...asked, messages: [...asked.messages, { role: "assistant", parts: kept }, ...next.ask] }
  }
})
