import { type Usage, sane } from "@bowline/domain/plan/Usage"
import { ProviderError, StreamTruncated, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Effect } from "effect"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import * as Retries from "../asking/Retries.ts"
import * as Target from "../asking/Target.ts"
import * as Attempt from "../provider/Attempt.ts"
import type { CredentialPool } from "../asking/CredentialPool.ts"
import type { FinishReason, ProviderPart, ProviderRequest } from "../provider/Provider.ts"
import * as AttemptSpan from "../telemetry/AttemptSpan.ts"

/** Whoever pays for a summary: is told what each attempt has used, as soon as its provider says so, and when it is over. */
export interface Account {
  readonly reported: (attempt: number, usage: Usage) => void
  readonly ended: () => void
}

/** An answer while it comes. Nobody sees it before it is whole. */
class Draft {
  text = ""
  finish: FinishReason | undefined
  isInferred = false
  responseModel: string | undefined
  usage: Usage | undefined
  firstContentAt: number | undefined

  take(part: ProviderPart, now: number): void {
    if (Attempt.isContent(part)) this.firstContentAt ??= now
    if (part._tag === "TextDelta") this.text += part.delta
    if (part._tag === "UsageReported") this.usage = sane(part.usage)
    if (part._tag === "Finished") {
      this.finish = part.reason
      this.isInferred = part.inferred
      this.responseModel = part.model
    }
  }
}

const truncated = new StreamTruncated({ message: "The summary ended before it was finished" })

interface Given {
  readonly session: SessionId
  /** As `provider/model`: the one that is asked, and those that may take its place, in order. */
  readonly models: ReadonlyArray<string>
  /** Milliseconds since 1970. */
  readonly deadline: number
  /** The question, for a model: its window says how long it may be. */
  readonly request: (model: string) => Effect.Effect<Omit<ProviderRequest, "model" | "facts">>
  readonly account: Account
}

/** Asks for a summary, in as many attempts as a step may make. Its own timers are not blamed on a credential. */
export const ask = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  { session, models, deadline, request, account }: Given
): Effect.fn.Return<{ readonly finish: FinishReason; readonly text: string }, ProviderError | StorageError> {
  const retries = yield* Retries.make(pool, config, { session, models, deadline, stage: "compaction" })
  const clock = yield* Clock.Clock

  const attemptOf = Effect.fnUntraced(function* (target: Target.Target, attempt: number) {
    const { provider, id: credential } = target.credential
    const model = Target.ownName(target.model)
    const { timers, facts } = ModelLimits.of(config, target.model)
    const asked = yield* request(target.model)
    const draft = new Draft()
    const take = (parts: ReadonlyArray<ProviderPart>) =>
      Effect.sync(() => {
        const now = clock.currentTimeMillisUnsafe()
        for (const part of parts) draft.take(part, now)
        if (draft.usage !== undefined) account.reported(attempt, draft.usage)
      })
    const whole = Attempt.run(provider.stream({ ...asked, model, facts }), timers, take, () => Effect.void).pipe(
      Effect.flatMap(() =>
        draft.finish === undefined
          ? Effect.fail(new ProviderError({ reason: truncated }))
          : Effect.succeed(draft.finish)
      )
    )
    return yield* AttemptSpan.observe(whole, { provider, model, credential, attempt }, () => draft).pipe(
      Effect.ensuring(Effect.sync(account.ended)),
      Effect.map((finish) => ({ finish, text: draft.text })),
      Effect.catchTag("ProviderError", ({ reason }): Effect.Effect<ProviderErrorReason> => Effect.succeed(reason))
    )
  })

  for (let attempt = 1; ; attempt++) {
    const target = attempt > 1 ? yield* retries.again : retries.target()
    const answer = yield* attemptOf(target, attempt)
    if (!("_tag" in answer)) {
      yield* pool.succeeded(Target.use(target)).pipe(Effect.ignore({ log: "Warn" }))
      return answer
    }
    yield* Effect.sleep(yield* retries.failed(attempt, answer))
  }
})
