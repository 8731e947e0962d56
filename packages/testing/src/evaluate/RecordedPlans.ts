import { initialView, type PlanView, reduce } from "@bowline/client"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { GivenFork } from "@bowline/domain/unstable/plan/Fork"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import { type EventRow, pageOf } from "@bowline/runtime/unstable/store/EventRow"
import { PlanStore, type Recorded } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { type PlanRecording, written } from "../replay/RecordFile.ts"
import { type Asked, AskFailed } from "./Evaluate.ts"

type Frames = PlanRecording["frames"]

/** What was recorded comes with the first frame. */
const rowsOf = ({ begins, frames, sources }: PlanRecording): ReadonlyArray<EventRow> =>
  frames.map(({ at, data, event, id }, index) => ({
    seq: id,
    at,
    count: 1,
    event: written(event),
    payload: JSON.stringify(data),
    ...(index === 0 && { record: JSON.stringify([...begins, ...sources]) })
  }))

const inputsOf = (frames: Frames): ReadonlyMap<unknown, Schema.Json> =>
  new Map(
    frames.flatMap(({ data, event }) =>
      event === "task.started" && "task_id" in data && "input" in data
        ? [[data.task_id, written<Schema.Json>(data.input)]]
        : []
    )
  )

const recordedOf = ({ calls, frames, ofEdge, plan, preferences }: PlanRecording): Recorded => {
  const inputs = inputsOf(frames)
  return {
    preferences: written(preferences),
    request: plan.request === null ? null : { ...plan.request, ...written<object>(ofEdge) },
    calls: calls.map((call) => ({ ...call, input: inputs.get(call.task_id) ?? {} }))
  }
}

/** The stores, in which these plans can be found, too: with what is on record of them. */
export const layer = (
  recordings: ReadonlyArray<PlanRecording>
): Layer.Layer<PlanStore | SessionStore, never, PlanStore | SessionStore> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const byPlan = new Map<string, PlanRecording>(recordings.map((recording) => [recording.plan.plan_id, recording]))
      const bySession = Map.groupBy(recordings, ({ plan }): string => plan.session_id)
      const texts = new Map(recordings.flatMap(({ texts }) => [...texts]))
      const stored: PlanStore["Service"] = {
        ...store,
        get: (owner, id) => {
          const recording = byPlan.get(id)
          return recording === undefined ? store.get(owner, id) : Effect.succeed(recording.plan)
        },
        recorded: (owner, id) => {
          const recording = byPlan.get(id)
          return recording === undefined ? store.recorded(owner, id) : Effect.succeed(recordedOf(recording))
        },
        events: (id, after, limit) => {
          const recording = byPlan.get(id)
          return recording === undefined
            ? store.events(id, after, limit)
            : Effect.succeed(pageOf(rowsOf(recording), after, limit))
        },
        keptTexts: (digests) =>
          Effect.map(store.keptTexts(digests), (kept) => {
            const known = digests.flatMap((digest) => {
              const text = texts.get(digest)
              return text === undefined ? [] : [[digest, text] as const]
            })
            return new Map([...kept, ...known])
          })
      }
      const messages: SessionStore["Service"]["messages"] = (session, page) => {
        const own = bySession.get(session)
        if (own === undefined) return sessions.messages(session, page)
        const { cursor, limit } = page
        const known = new Map(own.flatMap((recording) => recording.messages.map((one) => [one.message_id, one])))
        const behind = Array.from(known.values()).filter(({ seq }) => cursor === undefined || seq > cursor)
        const items = behind.slice(0, limit)
        return Effect.succeed({ items, next: behind.length > limit ? (items.at(-1)?.seq ?? null) : null })
      }
      return Context.make(PlanStore, stored).pipe(Context.add(SessionStore, { ...sessions, messages }))
    })
  )

const failed = (error: { readonly message?: string; readonly _tag: string }) => {
  const issues =
    "issues" in error ? written<ReadonlyArray<{ path: ReadonlyArray<unknown>; message: string }>>(error.issues) : []
  const said = issues.map(({ message, path }) => `${path.join(".")}: ${message}`).join("; ")
  return new AskFailed({ message: said || error.message || error._tag })
}

/** Runs a plan of an evaluation in this process: it ends with its fiber. */
export const ask: Effect.Effect<
  (asked: Asked) => Effect.Effect<PlanView, AskFailed>,
  never,
  PlanStore | PlanStreams | SessionStore
> = Effect.gen(function* () {
  const streams = yield* PlanStreams
  const makeFork = yield* Forks.make
  const given = Effect.fnUntraced(function* (asked: Asked) {
    if (asked._tag === "Question") {
      return { request: yield* Schema.decodeUnknownEffect(PlanRequest)(asked.request, { onExcessProperty: "error" }) }
    }
    const { recording, wanted } = asked
    const { question: _, ...rest } = yield* Schema.decodeUnknownEffect(GivenFork)(wanted)
    return yield* makeFork(anonymous, recording.plan.plan_id, rest)
  })
  return (asked) =>
    Effect.gen(function* () {
      const { frames, plan_id, session_id } = yield* streams.start({ caller: anonymous, ...(yield* given(asked)) })
      return yield* Stream.runFold(
        frames,
        () => initialView,
        (view, frame) =>
          typeof frame === "string"
            ? view
            : reduce(view, {
                id: frame.seq,
                event: frame.event,
                data: { ...written<object>(JSON.parse(frame.payload)), plan_id, session_id, at: frame.at }
              })
      )
    }).pipe(Effect.scoped, Effect.mapError(failed))
})
