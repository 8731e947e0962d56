import {
  IdleTimeout,
  ProviderError,
  type ProviderErrorReason,
  StreamTruncated
} from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Deferred, Duration, Effect } from "effect"
import * as Attempt from "../provider/Attempt.ts"
import type { CredentialPool } from "../asking/CredentialPool.ts"
import type { ProviderPart, ProviderRequest } from "../provider/Provider.ts"
import * as AttemptSpan from "../telemetry/AttemptSpan.ts"
import { Assembly } from "./Assembly.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import * as Target from "../asking/Target.ts"
import type { StepState } from "./StepState.ts"

/** Parts that a reader is handed at once. */
const slice = 256

const truncated = new StreamTruncated({ message: "The answer ended before it was finished" })

/** Of all that may end a plan from outside, only its deadline is the provider's fault, and only after a long silence. */
const blameForDeadline = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  run: PlanRun,
  target: Target.Target,
  silentMs: number
) {
  const isDeadline = (yield* Deferred.isDone(run.aborted)) && (yield* Deferred.await(run.aborted)) === "deadline"
  if (!isDeadline) return
  const message = `Nothing for ${Duration.format(Duration.millis(silentMs))} until the deadline`
  const reason = new IdleTimeout({ message })
  yield* pool.failed({ ...Target.use(target), reason, stage: "provider" }).pipe(Effect.ignore({ log: "Warn" }))
})

/** One attempt of the step that runs, shown while it comes: what it was, and why it failed, if it did. */
export const make = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  run: PlanRun,
  state: StepState,
  target: Target.Target,
  attempt: number,
  asked: Omit<ProviderRequest, "model" | "facts">
): Effect.fn.Return<{ readonly assembly: Assembly; readonly failure: ProviderErrorReason | undefined }, StorageError> {
  const { journal } = run.given
  const { provider, id: credential } = target.credential
  const assembly = new Assembly(run, state, attempt, provider.name)
  const { timers, facts } = ModelLimits.of(config, target.model)
  const model = Target.ownName(target.model)
  const clock = yield* Clock.Clock

  const show = (parts: ReadonlyArray<ProviderPart>): Effect.Effect<void, StorageError> => {
    for (const part of parts.slice(0, slice)) assembly.take(part)
    // A reader gets what comes in one piece in pieces that it can take.
    return parts.length <= slice
      ? journal.keepUp
      : Effect.andThen(
          journal.flush,
          Effect.suspend(() => show(parts.slice(slice)))
        )
  }
  const take = (parts: ReadonlyArray<ProviderPart>): Effect.Effect<void, StorageError> => {
    if (assembly.firstContentAt === undefined && parts.some(Attempt.isContent)) {
      assembly.firstContentAt = clock.currentTimeMillisUnsafe()
    }
    return show(parts)
  }

  const stream = provider.stream({ ...asked, model, facts })
  const ends = Attempt.run(stream, timers, take, (silentMs) =>
    silentMs < Duration.toMillis(timers.idle) ? Effect.void : blameForDeadline(pool, run, target, silentMs)
  ).pipe(
    Effect.flatMap(() =>
      assembly.finish === undefined ? Effect.fail(new ProviderError({ reason: truncated })) : Effect.void
    )
  )
  const failure = yield* AttemptSpan.observe(ends, { provider, model, credential, attempt }, () => assembly).pipe(
    run.stages.within("provider"),
    Effect.ensuring(Effect.sync(() => run.countUsage())),
    Effect.as(undefined),
    Effect.catchTag("ProviderError", ({ reason }) => Effect.succeed(reason))
  )
  return { assembly, failure }
})
