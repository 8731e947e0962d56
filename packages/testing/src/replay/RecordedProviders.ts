import type { StorageError } from "@bowline/domain/storage/StorageError"
import type * as ProviderErrors from "@bowline/domain/provider/ProviderError"
import { type ProviderPart, Provider } from "@bowline/runtime/provider/Provider"
import { Providers } from "@bowline/runtime/provider/Providers"
import { CredentialPool, type Picked } from "@bowline/runtime/asking/CredentialPool"
import { Clock, Effect, Layer, Stream, Struct } from "effect"
import type { Comparison } from "./Comparison.ts"
import { abortIn, hasNoEnd, type How, unstoredFrom } from "./RecordedEnd.ts"
import { providerError } from "./RecordedErrors.ts"
import { ownMessages, type Segment } from "./RecordedTakeovers.ts"
import { fieldsOf, type PlanRecording, type RecordedAttempt, type RecordedFrame, written } from "./RecordFile.ts"

/** The time of the run ends such an attempt by itself. */
const byTime = new Set(["first_token_timeout", "idle_timeout", "attempt_timeout"])
const deltas = new Set(["text.delta", "reasoning.delta"])
/** What somebody says comes between the pieces of an answer. */
const said = new Set(["inbox.accepted", "inbox.moved"])

/** Whether somebody has said it, or taken it back. A text moves to the next plan when this one ends. */
const isSaid = ({ data, event }: RecordedFrame): boolean =>
  said.has(event) && (fieldsOf(data)["moved_to"] ?? null) === null

/** What tells that there is an attempt: of one behind a text that has interrupted the one before, nothing else may. */
const ofAttempt = new Set([...deltas, "step", "retry", "usage"])

/** What is told while an answer comes. */
const ofAnswer = new Set([...deltas, ...said, "usage"])

/** What comes of a text that interrupts an answer. */
const ofSteering = new Set(["inbox.taken", "text.retract"])

/** Whether the frame tells of this attempt. */
export const isOf = (
  { step, attempt }: { readonly step: number; readonly attempt: number },
  { data }: Pick<RecordedFrame, "data">
) => {
  const fields = fieldsOf(data)
  return fields["step"] === step && fields["attempt"] === attempt
}

/** The answer of an attempt that is in the history, though the process was gone before its record was stored. */
const keptAnswer = (recording: PlanRecording, frames: ReadonlyArray<RecordedFrame>, { messages }: Segment) => {
  const last = ownMessages(recording)[messages - 1]
  const calls =
    last?.role === "assistant" ? last.parts.flatMap((part) => (part.type === "tool_call" ? [part] : [])) : []
  const hasBegun = frames.some(({ data }) => calls.some(({ task_id }) => task_id === fieldsOf(data)["task_id"]))
  if (calls.length === 0 || hasBegun) return []
  const parts = calls.map(({ input, raw_input, tool }, call): ProviderPart => {
    return { _tag: "ToolCall", call, id: "", name: tool, arguments: raw_input ?? JSON.stringify(input) }
  })
  return [...parts, { _tag: "Finished", reason: "tool_calls", inferred: false } as const]
}

/** What the provider had reported as the attempt was cut off. */
const usageOf = (frames: ReadonlyArray<RecordedFrame>, cut: Parameters<typeof isOf>[0]) =>
  frames
    .filter((frame) => frame.event === "usage" && isOf(cut, frame))
    .map(({ data }) => ({
      _tag: "UsageReported",
      usage: Struct.pick(fieldsOf(data), ["input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens"])
    }))

/** The attempts of one process in their order, with one behind them that was cut off before it was recorded, if there was one. */
const attemptsOf = (
  recording: PlanRecording,
  { expected }: Comparison,
  segment: Segment
): ReadonlyArray<RecordedAttempt> => {
  const attempts = recording.attempts.slice(segment.attempts.from, segment.attempts.to)
  const frames = expected.slice(segment.from, segment.to)
  const last = frames.findLast(({ event }) => ofAttempt.has(event))
  const place = last && fieldsOf(last.data)
  const cut = place && { step: Number(place["step"]), attempt: Number(place["attempt"]) }
  const isKnown =
    cut === undefined || attempts.some(({ attempt, step }) => attempt === cut.attempt && step === cut.step)
  if (isKnown) return attempts
  const prompt = { system: "", tools: "", messages: "", rest: "" }
  const count = frames.filter((frame) => deltas.has(frame.event) && isOf(cut, frame)).length
  const parts = [
    ...(count > 0 ? [count] : []),
    ...usageOf(frames, cut),
    ...keptAnswer(recording, expected.slice(0, segment.to), segment)
  ]
  return [...attempts, { type: "attempt", place: 0, ...cut, model: "", credential: "", prompt, parts: written(parts) }]
}

/** When the time of the plan is over, in milliseconds since 1970. */
export const deadlineOf = (frames: ReadonlyArray<{ readonly data: unknown }>): number =>
  Math.max(
    ...frames
      .map(({ data }) => fieldsOf(data)["deadline_at"])
      .map((at) => (typeof at === "string" ? Date.parse(at) : 0))
  )

/** Waits until only so much time is left to the plan, in milliseconds. */
const untilLeft = ({ came, expected }: Comparison, left: number): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    // Before the first step nobody was told its deadline: the clock began when the plan began.
    const wait = (deadlineOf(came) || deadlineOf(expected)) - now - left
    return wait > 0 ? Effect.sleep(wait) : Effect.void
  })

/** How much time was left to the plan when this came. */
const leftAt = (frames: ReadonlyArray<RecordedFrame>, frame: RecordedFrame | undefined): number =>
  deadlineOf(frames) - Date.parse(frame?.at ?? "")

/** Whether nothing was tried again behind the attempt that has begun last: the plan fails next, or begins its step without a summary. */
export const hasGivenUp = ({ attempts }: PlanRecording, { attempts: begun, came, expected }: Comparison): boolean => {
  const next = expected[came.length]?.event
  const another = attempts[begun]
  // Of a retry at a summary no frame tells.
  const goesOn = another?.step === 0 && another.attempt > 1
  return !goesOn && (next === "error" || next === "step")
}

/** Whether a text has interrupted the step while the store was told that its answer is there, or that its attempt has failed. */
const isSteered = ({ came, expected }: Comparison): boolean => {
  const next = expected.slice(came.length).find(({ event }) => !ofAnswer.has(event))
  const { reason, step } = fieldsOf(next?.data)
  if (next?.event === "text.retract") return reason === "steered"
  return next?.event === "inbox.taken" && step === came.findLast(({ event }) => event === "step")?.data["step"]
}

/** The store, from which the state of credentials is read, too. */
interface Available {
  /** Fails while the store is away. */
  readonly beforeRead: Effect.Effect<void, StorageError>
  /** Waits until it is away. */
  readonly away: Effect.Effect<void>
}

/** Whether a text interrupted the step before its next attempt began. */
const isCutShort = (
  { attempts, frames }: PlanRecording,
  { attempts: begun, came, expected, to }: Comparison
): boolean => {
  const place = expected.findIndex((frame, index) => index >= came.length && !isSaid(frame))
  const next = expected[place]
  const step = came.findLast(({ event }) => event === "step")?.data["step"]
  if (next?.event !== "inbox.taken" || place >= to || fieldsOf(next.data)["step"] !== step) return false
  return attempts.filter((attempt) => attempt.place <= frames.indexOf(next)).length <= begun
}

/** Whether the plan is aborted behind a retraction that comes next. */
const isRetracting = ({ came: { length }, expected }: Comparison, abort = 0): boolean =>
  length < abort && expected.slice(length, abort).every(({ event }) => event === "text.retract")

/** The places behind the `usage` of an answer: `heard`, where texts begin that came before anything was made of it, and `next`, where that begins. */
const behindAnswer = ({ came: { length }, expected }: Comparison) => {
  const heard = expected[length]?.event === "usage" ? length + 1 : length
  const next = expected.findIndex((frame, index) => index >= heard && !isSaid(frame))
  return { heard, next: next < 0 ? expected.length : next }
}

/**
 * What other plans, and the time that has passed, have made of credentials: on record where a plan found none. Else it gets the one that its next attempt had. Failures are as they were judged.
 */
const poolOf = (
  recording: PlanRecording,
  blocked: PlanRecording["blocked"],
  comparison: Comparison,
  providers: Providers["Service"],
  abort: number | undefined,
  next: () => RecordedAttempt | undefined,
  inTime: Effect.Effect<void>,
  store: Available
): CredentialPool["Service"] => {
  let looks = 0
  let attempts = 0
  const choose = ({ avoid, model, prefer, provider }: Parameters<CredentialPool["Service"]["pick"]>[0]): Picked => {
    const credentials = providers.get(provider)?.credentials ?? []
    const then = next()?.model === model ? next()?.credential : undefined
    const own = credentials.find(({ id }) => id === (then ?? prefer))
    // It asks again, with the same one or another.
    if (prefer !== undefined && own !== undefined) return { _tag: "Picked", credential: own }
    if (attempts !== comparison.attempts) looks = 0
    attempts = comparison.attempts
    looks++
    const known = blocked.find(({ look, place }) => place === attempts && look === looks)
    if (known?.model === model) return { _tag: "Exhausted", binding: known.binding, isTried: false }
    const free = credentials.filter(({ id }) => !avoid.has(id))
    const credential = free.find(({ id }) => id === then) ?? free[0]
    return credential === undefined
      ? { _tag: "Exhausted", binding: undefined, isTried: true }
      : { _tag: "Picked", credential }
  }
  return {
    pick: (wanted) =>
      Effect.suspend(() => {
        if (wanted.prefer !== undefined && isCutShort(recording, comparison)) return Effect.never
        const chosen = Effect.andThen(
          inTime,
          Effect.map(store.beforeRead, () => choose(wanted))
        )
        if (!isRetracting(comparison, abort)) return chosen
        // What is retracted by now is stored first.
        const goesOn = Effect.suspend(() => (isRetracting(comparison, abort) ? chosen : Effect.never))
        return Effect.andThen(Effect.sleep(1), goesOn)
      }),
    judge: (_use, reason) => Effect.succeed(reason),
    // A plan that was aborted, or got a text, before it told of a retry: that came as it stored the failure.
    failed: () =>
      Effect.suspend(() =>
        isSteered(comparison) || comparison.came.length >= (abort ?? Infinity) ? Effect.never : Effect.void
      ),
    succeeded: () =>
      Effect.suspend(() => {
        const { heard, next } = behindAnswer(comparison)
        // An abort while a summary was stored has no frame but its `usage` in front of it.
        const isAborted = next >= (abort ?? Infinity) && comparison.expected[next]?.event !== "usage"
        if (isSteered(comparison) || isAborted) return Effect.never
        const to = Math.min(next, comparison.to)
        return to > heard ? comparison.before(to) : Effect.void
      }),
    list: Effect.succeed([]),
    clear: () => Effect.die("Nobody clears a credential")
  }
}

/** The providers, and their credentials: each request gets what the next recorded attempt got. */
export const layer = (
  recording: PlanRecording,
  comparison: Comparison,
  how: How,
  segment: Segment,
  store: Available
) => {
  const abort = abortIn(recording, comparison, how, segment)
  const left = [...attemptsOf(recording, comparison, segment)]
  comparison.attempts = segment.attempts.from
  const { expected } = comparison
  const unstored = unstoredFrom(recording, comparison)
  const stream = (attempt: RecordedAttempt): Stream.Stream<ProviderPart, ProviderErrors.ProviderError> => {
    const own = expected.flatMap((frame, index) => (deltas.has(frame.event) && isOf(attempt, frame) ? [index] : []))
    const announced = expected.findIndex(
      (frame) => (frame.event === "step" || frame.event === "retry") && isOf(attempt, frame)
    )
    const behind = (own.at(-1) ?? announced) + 1
    // One behind a text that has interrupted the one before, or the pause in front of it, begins there.
    const from = Math.max(behind, comparison.came.length)
    const next = expected.findIndex(
      (frame, index) => index >= from && !isSaid(frame) && !(behind === 0 && ofSteering.has(frame.event))
    )
    const end = Math.min(next, segment.to)
    let shown = 0
    // It was interrupted while it showed what it had: all of the answer may have been there.
    const heard = attempt.parts.reduce((sum: number, part) => (typeof part === "number" ? sum + part : sum), 0)
    const isUnshown = attempt.failure === undefined && heard > own.length
    // The plan was over before it had the whole answer.
    const isLost = isUnshown || (abort !== undefined && attempt.step > 0 && end >= abort)
    const given = attempt.parts.filter(
      (part) => !isLost || typeof part === "number" || (part._tag !== "Finished" && part._tag !== "ToolCall")
    )
    // What it had reported by then was reported before it was interrupted.
    const isCut = isUnshown || hasNoEnd(attempt)
    const pieces = given.map((part): Stream.Stream<ProviderPart> => {
      if (typeof part !== "number") {
        const isLate = part._tag === "Finished" || part._tag === "ToolCall" || part._tag === "UsageReported"
        const wait = isLate && attempt.step > 0 ? comparison.before(own[shown] ?? (isCut ? behind : end)) : Effect.void
        return Stream.fromEffect(Effect.as(wait, part))
      }
      const indexes = own.slice(shown, (shown += part))
      return Stream.fromIterable(indexes).pipe(
        Stream.mapEffect((index) =>
          Effect.map(index > unstored ? store.away : comparison.before(index), (): ProviderPart => {
            const frame = expected[index]
            const delta = written<string>(fieldsOf(frame?.data)["delta"])
            return { _tag: frame?.event === "reasoning.delta" ? "ReasoningDelta" : "TextDelta", delta }
          })
        )
      )
    })
    const parts = pieces.reduce((all, next) => Stream.concat(all, next), Stream.empty as Stream.Stream<ProviderPart>)
    const failure = attempt.failure === undefined ? undefined : fieldsOf(attempt.failure)
    if (failure !== undefined && !byTime.has(String(failure["_tag"]))) {
      const wait = attempt.step > 0 ? comparison.before(end) : untilGivenUp
      const isLast = how.failsLate && expected[end]?.event === "error"
      const late = isLast
        ? Effect.andThen(wait, untilLeft(comparison, Math.min(leftAt(expected.slice(0, end), expected[end]), 2)))
        : wait
      return Stream.concat(parts, Stream.fromEffect(Effect.andThen(late, Effect.fail(providerError(failure)))))
    }
    const last = given.at(-1)
    const isFinished = typeof last === "object" && last._tag === "Finished"
    return isFinished ? parts : Stream.concat(parts, Stream.never)
  }
  /** A summary that was given up leaves to the plan as much time as it did: attempts take no time here. */
  const untilGivenUp = Effect.suspend(() => {
    const next = expected[comparison.came.length]
    const isStep = next?.event === "step" && hasGivenUp(recording, comparison)
    const then = leftAt(expected, next)
    return isStep && then > 0 ? untilLeft(comparison, then) : Effect.void
  })
  /** The last attempt, which a timer ends when no time is left for another, begins as late as it did: pieces take no time here. */
  const inTime = Effect.suspend(() => {
    const [last, another] = left
    if (!how.failsLate || last === undefined || another !== undefined) return Effect.void
    const reason = String(fieldsOf(last.failure)["_tag"])
    const own = expected.filter((frame) => frame.event !== "usage" && isOf(last, frame))
    const since = own.at(reason === "attempt_timeout" ? 0 : -1)
    return byTime.has(reason) && since !== undefined ? untilLeft(comparison, leftAt(expected, since)) : Effect.void
  })
  const ask = (asked: unknown) =>
    Stream.suspend(() => {
      // Another plan may follow in the session.
      if (comparison.isOver) return Stream.never
      const next = left.shift()
      comparison.attempt()
      if (next !== undefined) return stream(next)
      // It was asking when it was aborted, or when its process left it.
      if (recording.plan.error?.reason !== undefined || segment.to < Infinity) return Stream.never
      comparison.differ("attempt", "no further request to a provider", asked)
      return Stream.never
    })
  const credentials = new Map<string, number>()
  const told = recording.frames.map(({ data }) => fieldsOf(data)["model"])
  for (const model of [recording.plan.model, ...recording.attempts.map(({ model }) => model), ...told]) {
    if (typeof model !== "string") continue
    const name = model.slice(0, model.indexOf("/"))
    credentials.set(name, Math.max(credentials.get(name) ?? 0, 1))
  }
  const used = recording.frames.flatMap(({ data }) => fieldsOf(data)["credential"] ?? [])
  for (const credential of [...used, ...recording.attempts.map((attempt) => attempt.credential)]) {
    if (typeof credential !== "string") continue
    const [, name = "", number = "1"] = /^(.*)-(\d+)$/.exec(credential) ?? []
    if (credentials.has(name)) credentials.set(name, Math.max(credentials.get(name) ?? 0, Number(number)))
  }
  const adapters = Array.from(credentials).flatMap(([name, count]) =>
    Array.from({ length: count }, () =>
      Layer.succeed(Provider, { name, stream: ({ model }) => ask({ model: `${name}/${model}` }) })
    )
  )
  const blocked = recording.blocked.slice(segment.blocked.from, segment.blocked.to)
  const pool = Layer.effect(
    CredentialPool,
    Effect.map(Providers, (providers) =>
      poolOf(recording, blocked, comparison, providers, abort, () => left[0], inTime, store)
    )
  )
  return Layer.provideMerge(pool, Providers.layer(adapters))
}
