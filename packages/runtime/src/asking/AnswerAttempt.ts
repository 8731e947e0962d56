import {
  IdleTimeout,
  ProviderError,
  type ProviderErrorReason,
  StreamTruncated
} from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Duration, Effect, Struct } from "effect"
import type { PlansConfig } from "../config/PlansConfig.ts"
import * as Monotonic from "../process/Monotonic.ts"
import * as Attempt from "../provider/Attempt.ts"
import { costOf, type Model, refusedOf } from "../provider/ModelTable.ts"
import type { FinishReason, ProviderPart, ProviderRequest } from "../provider/Provider.ts"
import { AttemptNotes } from "../record/AttemptRecord.ts"
import * as AttemptSpan from "../telemetry/AttemptSpan.ts"
import { Assembly } from "./Assembly.ts"
import type { CredentialPool } from "./CredentialPool.ts"
import type { Listener } from "./Listener.ts"
import * as ModelLimits from "./ModelLimits.ts"
import * as SentFiles from "./SentFiles.ts"
import * as Target from "./Target.ts"

/** A request to any model: the target adds the model. */
export interface ModelRequest extends Omit<ProviderRequest, "model" | "facts"> {
  /** Whether it has less than the whole conversation. Its spans say so, and the provider is told nothing of it. */
  readonly isCompacted?: boolean
}

/** An answer that its provider has finished. */
export interface FinishedAnswer extends Pick<Assembly, "parts" | "calls" | "dropped" | "text" | "usage" | "isCalling"> {
  readonly finish: FinishReason
}

export type Attempted =
  | { readonly _tag: "Finished"; readonly answer: FinishedAnswer }
  | { readonly _tag: "Failed"; readonly reason: ProviderErrorReason }

const truncated = new StreamTruncated({ message: "The answer ended before it was finished" })

const finished = (assembly: Assembly): Effect.Effect<Attempted, ProviderError> => {
  const { finish, parts, calls, dropped, isCalling, text, usage } = assembly
  return finish === undefined
    ? Effect.fail(new ProviderError({ reason: truncated }))
    : Effect.succeed({ _tag: "Finished", answer: { finish, parts, calls, dropped, isCalling, text, usage } })
}

/** Models refuse a limit that is above their own. */
const limitOf = ({ maxOutputTokens }: ModelRequest, facts: Model | undefined) =>
  maxOutputTokens !== undefined && { maxOutputTokens: Math.min(maxOutputTokens, facts?.outputLimit ?? Infinity) }

/** Without the fields that the model refuses: callers cannot know which model answers them. */
const samplingOf = ({ sampling }: ModelRequest, facts: Model | undefined) =>
  sampling !== undefined && { sampling: Struct.omit(sampling, refusedOf(sampling, facts)) }

/** Makes single attempts: one request to one target, under the timers of its model. */
export const make = (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  withFiles: ReturnType<typeof SentFiles.make>
) => {
  /** An attempt that a plan's end cuts off puts its credential aside only if the time of the plan is over, and after a long silence. */
  const blameForDeadline = Effect.fnUntraced(function* (target: Target.Target, silentMs: number, listener: Listener) {
    if (!listener.isDeadline()) return
    const message = `Nothing for ${Duration.format(Duration.millis(silentMs))}, and the time of the plan is over`
    const reason = new IdleTimeout({ message })
    yield* pool
      .failed({ ...Target.use(target), reason, stage: "provider" })
      .pipe(Effect.ignore({ log: "Warn", message: "credential_use_not_stored" }))
  })

  return Effect.fnUntraced(function* (
    target: Target.Target,
    attempt: number,
    { isCompacted = false, ...request }: ModelRequest,
    listener: Listener,
    conversation: string
  ): Effect.fn.Return<Attempted, StorageError> {
    const { provider, id: credential } = target.credential
    const { timers, facts } = ModelLimits.of(config, target.model)
    const model = Target.ownName(target.model)
    const clock = yield* Clock.Clock
    const assembly = new Assembly(provider.name)
    const notes = new AttemptNotes(request, listener.isShown)

    const take = (parts: ReadonlyArray<ProviderPart>): Effect.Effect<void, StorageError> => {
      if (assembly.firstContentAt === undefined && parts.some(Attempt.isContent)) {
        assembly.firstContentAt = Monotonic.millis(clock)
      }
      const before = assembly.usage
      for (const part of parts) assembly.take(part)
      notes.take(parts)
      if (assembly.usage !== undefined && assembly.usage !== before) {
        const { usage } = assembly
        listener.reported({ attempt, model: target.model, usage, cost_usd: costOf(usage, facts) })
      }
      return listener.heard(attempt, parts)
    }
    const cut = (silentMs: number) =>
      silentMs < Duration.toMillis(timers.idle) ? Effect.void : blameForDeadline(target, silentMs, listener)
    const messages = yield* withFiles(request.messages, facts)
    const ends = Attempt.run(
      provider.stream({
        ...request,
        messages,
        ...limitOf(request, facts),
        ...samplingOf(request, facts),
        model,
        facts
      }),
      timers,
      take,
      cut
    ).pipe(
      Effect.flatMap(() => finished(assembly)),
      Effect.catchTag("ProviderError", (error) =>
        Effect.flatMap(pool.judge(Target.use(target), error.reason), (reason) =>
          Effect.fail(new ProviderError({ reason }))
        )
      ),
      // As it was judged: that depends on what other plans did.
      Effect.tapErrorTag("ProviderError", ({ reason }) => Effect.sync(() => notes.failed(reason))),
      Effect.ensuring(Effect.sync(() => listener.recorded?.(notes.record(attempt, target.model, credential))))
    )
    const observed = { provider, model, credential, attempt, conversation, isCompacted, request }
    return yield* AttemptSpan.observe(ends, observed, () => assembly).pipe(
      listener.within("provider"),
      Effect.ensuring(Effect.sync(listener.ended)),
      Effect.catchTag("ProviderError", ({ reason }) => Effect.succeed<Attempted>({ _tag: "Failed", reason }))
    )
  })
}
