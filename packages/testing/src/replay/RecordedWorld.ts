import * as PeerErrors from "@bowline/domain/peer/PeerError"
import * as ProviderErrors from "@bowline/domain/provider/ProviderError"
import type { ProviderPart } from "@bowline/runtime/provider/Provider"
import { Provider } from "@bowline/runtime/provider/Provider"
import { Providers } from "@bowline/runtime/provider/Providers"
import { type McpCall, McpClient, type McpConnection, type McpTool } from "@bowline/runtime/remote/McpClient"
import {
  type Discovery,
  type PeerCall,
  PeerClient,
  type PeerEvent,
  type PeerResult
} from "@bowline/runtime/remote/PeerClient"
import type { Tool } from "@bowline/runtime/tool/LocalTools"
import { Context, Effect, Layer, type Schema, Stream } from "effect"
import type { Comparison } from "./Comparison.ts"
import {
  type PlanRecording,
  type RecordedAttempt,
  type RecordedCall,
  type RecordedFrame,
  written
} from "./RecordFile.ts"

type Fields = Readonly<Record<string, unknown>>

/** The call for which a fiber asks, by its id in this run. */
export const CurrentCall = Context.Reference<string | undefined>("@bowline/testing/replay/CurrentCall", {
  defaultValue: () => undefined
})

export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {}

/** Errors come back as what they were: their classes decide what may be tried again. */
const reviving = (module: object) => {
  const classes = new Map<string, new (fields: Fields) => object>()
  for (const made of Object.values(module) as ReadonlyArray<unknown>) {
    if (typeof made !== "function" || !/^[A-Z]/.test(made.name)) continue
    const Made = written<new (fields: Fields) => object>(made)
    const tag = fieldsOf(new Made({ message: "", reason: {} }))["_tag"]
    if (typeof tag === "string") classes.set(tag, Made)
  }
  return (reason: Fields): object | undefined => {
    const Made = classes.get(String(reason["_tag"]))
    return Made && new Made(reason)
  }
}

const providerReason = reviving(ProviderErrors)
const peerReason = reviving(PeerErrors)

const providerError = (failure: Fields) =>
  new ProviderErrors.ProviderError({
    reason: written(providerReason(failure) ?? new ProviderErrors.Unknown({ message: "" }))
  })
const peerError = (reason: Fields) =>
  new PeerErrors.PeerError({ reason: written(peerReason(reason) ?? new PeerErrors.Protocol({ message: "" })) })

/** The time of the run ends such an attempt by itself. */
const byTime = new Set(["first_token_timeout", "idle_timeout", "attempt_timeout"])
const deltas = new Set(["text.delta", "reasoning.delta"])
/** What somebody says comes between the pieces of an answer. */
const said = new Set(["inbox.accepted", "inbox.moved"])

const isOf = ({ step, attempt }: { readonly step: number; readonly attempt: number }, { data }: RecordedFrame) => {
  const fields = fieldsOf(data)
  return fields["step"] === step && fields["attempt"] === attempt
}

/** The attempts in their order, with one behind them that was cut off before it was recorded, if there was one. */
const attemptsOf = ({ attempts, frames }: PlanRecording): ReadonlyArray<RecordedAttempt> => {
  const [last] = frames.filter(({ event }) => event === "step" || event === "retry" || deltas.has(event)).slice(-1)
  const place = last && fieldsOf(last.data)
  const cut = place && { step: Number(place["step"]), attempt: Number(place["attempt"]) }
  const isKnown =
    cut === undefined || attempts.some(({ attempt, step }) => attempt === cut.attempt && step === cut.step)
  if (isKnown) return attempts
  const prompt = { system: "", tools: "", messages: "", rest: "" }
  const count = frames.filter((frame) => deltas.has(frame.event) && isOf(cut, frame)).length
  return [...attempts, { type: "attempt", ...cut, model: "", credential: "", prompt, parts: [count] }]
}

/** What the end of a plan that is aborted tells, in front of the abort: what was open is ended, and what was said meanwhile is heard. */
const ending = new Set("usage error done approval.resolved text.retract inbox.accepted inbox.moved".split(" "))

const isEnding = ({ data, event }: RecordedFrame): boolean =>
  ending.has(event) || (event === "task.finished" && fieldsOf(data)["state"] === "interrupted")

/** In front of which frame somebody has aborted the plan, if so. A deadline that passes while nothing else happens needs nobody. */
export const abortIn = ({ plan }: PlanRecording, { expected }: Comparison, isByTime: boolean): number | undefined => {
  const reason = plan.error?.reason
  if (reason === undefined || (reason === "deadline" && isByTime)) return undefined
  const place = expected.findLastIndex((frame) => !isEnding(frame)) + 1
  const open = expected.findIndex(({ event }, index) => index >= place && event === "task.finished")
  const said = expected.findIndex(({ event }, index) => index >= place && event !== "inbox.accepted")
  // A text that was heard while calls were open came before.
  return open >= 0 ? said : place
}

/** The providers: each request gets what the next recorded attempt got. */
const providersOf = (recording: PlanRecording, comparison: Comparison, isByTime: boolean) => {
  const abort = abortIn(recording, comparison, isByTime)
  const left = [...attemptsOf(recording)]
  const { expected } = comparison
  const stream = (attempt: RecordedAttempt): Stream.Stream<ProviderPart, ProviderErrors.ProviderError> => {
    const own = expected.flatMap((frame, index) => (deltas.has(frame.event) && isOf(attempt, frame) ? [index] : []))
    const announced = expected.findIndex(
      (frame) => (frame.event === "step" || frame.event === "retry") && isOf(attempt, frame)
    )
    const behind = (own.at(-1) ?? announced) + 1
    const end = expected.findIndex(({ event }, index) => index >= behind && !said.has(event))
    let shown = 0
    // The plan was over before it had the whole answer.
    const isLost = abort !== undefined && attempt.step > 0 && end >= abort
    const given = attempt.parts.filter(
      (part) => !isLost || typeof part === "number" || (part._tag !== "Finished" && part._tag !== "ToolCall")
    )
    const pieces = given.map((part): Stream.Stream<ProviderPart> => {
      if (typeof part !== "number") {
        const isLate = part._tag === "Finished" || part._tag === "ToolCall" || part._tag === "UsageReported"
        const wait = isLate && attempt.step > 0 ? comparison.before(own[shown] ?? end) : Effect.void
        return Stream.fromEffect(Effect.as(wait, part))
      }
      const indexes = own.slice(shown, (shown += part))
      return Stream.fromIterable(indexes).pipe(
        Stream.mapEffect((index) =>
          Effect.map(comparison.before(index), (): ProviderPart => {
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
      const wait = attempt.step > 0 ? comparison.before(end) : Effect.void
      return Stream.concat(parts, Stream.fromEffect(Effect.andThen(wait, Effect.fail(providerError(failure)))))
    }
    const last = given.at(-1)
    const isFinished = typeof last === "object" && last._tag === "Finished"
    return isFinished ? parts : Stream.concat(parts, Stream.never)
  }
  const ask = (asked: unknown) =>
    Stream.suspend(() => {
      // Another plan may follow in the session.
      if (comparison.isOver) return Stream.never
      const next = left.shift()
      if (next !== undefined) return stream(next)
      // It was asking when it was aborted.
      if (abort !== undefined) return Stream.never
      comparison.differ("attempt", "no further request to a provider", asked)
      return Stream.never
    })
  const credentials = new Map<string, number>()
  for (const model of [recording.plan.model, ...recording.attempts.map(({ model }) => model)]) {
    const name = model.slice(0, model.indexOf("/"))
    credentials.set(name, Math.max(credentials.get(name) ?? 0, 1))
  }
  for (const { credential } of recording.attempts) {
    const [, name = "", number = "1"] = /^(.*)-(\d+)$/.exec(credential) ?? []
    if (credentials.has(name)) credentials.set(name, Math.max(credentials.get(name) ?? 0, Number(number)))
  }
  const adapters = Array.from(credentials).flatMap(([name, count]) =>
    Array.from({ length: count }, () =>
      Layer.succeed(Provider, { name, stream: ({ model }) => ask({ model: `${name}/${model}` }) })
    )
  )
  return Providers.layer(adapters)
}

/** A question of a peer or a server, as readers saw it. */
interface AskedOnRecord extends Fields {
  readonly isParked: boolean
}

const textIn = (fields: Fields, name: string): string => (typeof fields[name] === "string" ? fields[name] : "")

/** What the recorded call gives, as soon as all in front of it has come: what it told on its way, and its end; never, if it never ended. */
const endOf = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  task_id: string,
  onEvent: (event: PeerEvent) => Effect.Effect<void>,
  showsArtifacts: boolean,
  ask: (question: AskedOnRecord) => Effect.Effect<unknown> = () => Effect.never
) {
  const recorded = yield* comparison.recordedTask(task_id)
  const call = recording.calls.find((one) => one.task_id === recorded)
  const own = comparison.expected.flatMap((frame, index) =>
    fieldsOf(frame.data)["task_id"] === recorded ? [{ index, event: frame.event, data: fieldsOf(frame.data) }] : []
  )
  const isRefused = call?.error?.code === call?.state && (call?.state === "rejected" || call?.state === "invalid")
  if (isRefused) {
    comparison.differ("call", `a call of ${call?.tool} that is refused`, `a call of ${call?.tool} that is made`)
    return yield* Effect.never
  }
  if (call?.remote_task_id != null) {
    const { remote_context_id: remoteContextId, remote_task_id: remoteTaskId } = call
    yield* onEvent({ _tag: "Accepted", remoteTaskId, remoteContextId })
  }
  let verified: unknown = "unknown"
  let isExpired = false
  // Another process goes on with the call: its peer tells once more where it is.
  const past = comparison.came.length
  const again = new Set<string>()
  const asked = own.findLast(({ event, index }) => event === "waiting" && index < past)?.index ?? past
  for (const { data, event, index } of own) {
    if (index < past && event === "waiting" && index < asked) continue
    if (index < past && event !== "waiting") {
      const shown = JSON.stringify(data)
      if (again.has(shown)) continue
      again.add(shown)
    }
    if (event === "waiting" && data["kind"] === "answer") {
      yield* comparison.before(index)
      const isParked = comparison.expected[index + 1]?.event === "parked"
      isExpired = (yield* ask({ ...data, isParked })) === "expired"
    }
    if (event === "task.progress") {
      yield* comparison.before(index)
      const { message, state } = data
      yield* onEvent({ _tag: "Progress", state: String(state), ...(typeof message === "string" && { message }) })
    }
    if (event !== "task.artifact") continue
    verified = data["verified"]
    if (!showsArtifacts) continue
    yield* comparison.before(index)
    const { content, media_type, name } = data
    yield* onEvent({
      _tag: "Artifact",
      content: written(content),
      mediaType: String(media_type),
      verified: written(verified),
      ...(typeof name === "string" && { name })
    })
  }
  const end = own.find(({ event }) => event === "task.finished")
  const artifact = own.findLast(({ event }) => event === "task.artifact")
  if (call === undefined || end === undefined) return yield* Effect.never
  const isByTime = call.state === "timed-out" && call.error?.code === "timeout"
  if (call.state === "interrupted" || (isByTime && !isExpired)) return yield* Effect.never
  yield* comparison.before(showsArtifacts ? end.index : (artifact?.index ?? end.index))
  return { call, verified }
})

const errorOf = ({ error }: RecordedCall) => {
  const reason =
    error === null
      ? undefined
      : peerReason({ _tag: error.code, message: error.message, code: 0, status: 0, retryAfterMs: 0 })
  return reason === undefined || error === null ? undefined : peerError({ ...reason, message: error.message })
}

/** What agents and servers have told, by `card` or `server` and their names. */
const toldIn = ({ sources, texts }: PlanRecording): ReadonlyMap<string, Fields> => {
  const told = new Map<string, Fields>()
  for (const record of sources) {
    for (const [name, source] of Object.entries(record.sources)) {
      if (told.has(name)) continue
      told.set(name, fieldsOf("told" in source ? source.told : JSON.parse(texts.get(source.digest) ?? "{}")))
    }
  }
  return told
}

const lost = { _tag: "unreachable", message: "It is not on record what it has told" }

/** What a peer has told, for this call, of an earlier one that may have had the same effect. */
const toldOf = ({ claims }: PlanRecording, comparison: Comparison, current: string) => {
  const recorded = comparison.recordedIdOf(current)
  const { told } = claims.find(({ before, task_id }) => task_id === recorded && before === "approval") ?? {}
  return told === undefined
    ? Effect.fail(peerError(lost))
    : Effect.succeed(written<PeerResult>({ state: told.state, content: told.content, verified: "unknown" }))
}

/** Asks what the peer has asked. */
const askOf =
  (answer: PeerCall["answer"]) =>
  (asked: AskedOnRecord): Effect.Effect<unknown> =>
    answer === undefined
      ? Effect.void
      : answer({
          mark: String(asked["round"]),
          message: textIn(asked, "message"),
          ...("data" in asked && { data: written<Schema.Json>(asked["data"]) })
        })

/** Asks what the server has asked. It waits at an open connection where the plan was not parked. */
const askFor =
  (answer: McpCall["answer"]) =>
  (asked: AskedOnRecord): Effect.Effect<unknown> =>
    answer === undefined
      ? Effect.void
      : answer({
          message: textIn(asked, "message"),
          schema: written(asked["data"] ?? null),
          ...(typeof asked["url"] === "string" && { url: asked["url"] }),
          ...(asked.isParked && { mark: String(asked["round"]) })
        })

const peersOf = (recording: PlanRecording, comparison: Comparison) => {
  const told = toldIn(recording)
  return Layer.succeed(PeerClient, {
    discover: ({ name }) => {
      const card = told.get(`card ${name}`) ?? { error: lost }
      return "error" in card
        ? Effect.fail(peerError(fieldsOf(card["error"])))
        : Effect.succeed(written<Discovery>(card))
    },
    peers: Effect.succeed([]),
    cancel: () => Effect.void,
    call: ({ answer, taskId }, onEvent) =>
      Effect.flatMap(CurrentCall, (current) => {
        if (current !== undefined && current !== taskId) return toldOf(recording, comparison, current)
        return Effect.flatMap(
          endOf(recording, comparison, taskId, onEvent, true, askOf(answer)),
          ({ call, verified }) => {
            const error = errorOf(call)
            if (error !== undefined) return Effect.fail(error)
            return Effect.succeed({
              state: written(call.state),
              content: call.result ?? "",
              verified: written(verified)
            })
          }
        )
      })
  })
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A connection to a server that has told this. */
export const connectionOf = (
  recording: PlanRecording,
  comparison: Comparison,
  name: string
): Effect.Effect<McpConnection, PeerErrors.PeerError> => {
  const told = toldIn(recording).get(`server ${name}`) ?? { error: lost }
  if ("error" in told) return Effect.fail(peerError(fieldsOf(told["error"])))
  return Effect.succeed({
    description: typeof told["description"] === "string" ? told["description"] : null,
    tools: Effect.succeed(written<ReadonlyArray<McpTool>>(told["tools"] ?? [])),
    hasChanged: Effect.succeed(false),
    call: ({ answer, taskId, tool }, onProgress) => {
      const heard = (event: PeerEvent) => (event._tag === "Progress" ? onProgress(event.message ?? "") : Effect.void)
      return Effect.flatMap(endOf(recording, comparison, taskId, heard, false, askFor(answer)), ({ call }) => {
        const error = errorOf(call)
        if (error !== undefined) return Effect.fail(error)
        const text = call.result ?? ""
        return Effect.succeed({
          state: call.state === "completed" || call.state === "input-required" ? call.state : "failed",
          text,
          structured: tool.outputSchema === null ? undefined : written(parsed(text))
        })
      })
    }
  })
}

const serversOf = (recording: PlanRecording, comparison: Comparison) =>
  Layer.succeed(McpClient, {
    connect: ({ name }) => connectionOf(recording, comparison, name),
    servers: Effect.succeed([])
  })

/** A local tool as it was described, whose calls give what they gave. */
export const localTool = (recording: PlanRecording, comparison: Comparison, described: Fields): Tool =>
  written({
    agent: null,
    endpoint: null,
    skill: null,
    timeoutMs: undefined,
    approval: undefined,
    ...described,
    identify: Effect.succeed(null),
    call: ({ onEvent, taskId }: Parameters<Tool["call"]>[0]) =>
      Effect.map(endOf(recording, comparison, taskId, onEvent, false), ({ call }) => ({
        state: call.state,
        content: call.result ?? "",
        ...(call.error !== null && { error: call.error })
      }))
  })

/** All that surrounds the plan, out of its record. */
export const layer = (recording: PlanRecording, comparison: Comparison, isByTime: boolean) =>
  Layer.mergeAll(
    providersOf(recording, comparison, isByTime),
    peersOf(recording, comparison),
    serversOf(recording, comparison)
  )
