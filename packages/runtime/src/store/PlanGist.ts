import { isSettled, type Plan } from "@bowline/domain/plan/Plan"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Option, Schema } from "effect"
import { continues, isDelta, toEvent } from "./EventRow.ts"
import { framesBehind, type PlanChange, type PlanStore, type Told, type ToldFacts } from "./PlanStore.ts"

/** An event of a plan, and its number. */
export type Numbered = { readonly seq: number } & PlanEvent

/**
 * What a plan has come to: its events up to `seq`, as far as they show in its answer, its calls and what it waits for. The pieces of a text
 * are one event, with the number of the first one. The end is none of them: it stands on the plan's row.
 */
export interface PlanGist {
  readonly seq: number
  readonly isEnded: boolean
  /** When the first piece of text or reasoning was stored, ISO 8601 in UTC. */
  readonly firstTokenAt?: string
  readonly events: ReadonlyArray<Numbered>
}

/** A plan of which nothing is to be told up to this event. */
export const upTo = (seq: number): PlanGist => ({ seq, isEnded: false, events: [] })

/** A larger gist is not stored: whoever asks for it reads the events. */
const maxCharacters = 4_194_304

/** The events of a gist. */
export const kept: ReadonlySet<PlanEvent["event"]> = new Set<PlanEvent["event"]>([
  "queued",
  "plan",
  "step",
  "text.delta",
  "reasoning.delta",
  "text.retract",
  "usage",
  "task.started",
  "task.artifact",
  "task.finished",
  "approval.requested",
  "approval.resolved",
  "waiting"
])

/** Adds events that follow one another, of which the first piece of a text was stored at that time; the first one has the number behind the gist's. */
export const add = (gist: PlanGist, added: ReadonlyArray<PlanEvent>, at: string): PlanGist => {
  const events = gist.events.slice()
  let { firstTokenAt, isEnded, seq } = gist
  for (const event of added) {
    seq++
    if (isDelta(event)) firstTokenAt ??= at
    if (event.event === "final" || event.event === "error") isEnded = true
    if (!kept.has(event.event)) continue
    const last = events.at(-1)
    if (last !== undefined && isDelta(last) && continues(last, event)) {
      events[events.length - 1] = { ...last, data: { ...last.data, delta: last.data.delta + event.data.delta } }
    } else events.push({ ...event, seq })
  }
  return { seq, isEnded, ...(firstTokenAt !== undefined && { firstTokenAt }), events }
}

/** Whether a call waits for a decision, or for somebody outside. */
export const isWaiting = ({ events }: PlanGist): boolean => {
  const waiting = new Set<string | null>()
  for (const { data, event } of events) {
    if (event === "approval.requested" || event === "waiting") waiting.add(data.task_id)
    if (event === "approval.resolved" || event === "task.finished") waiting.delete(data.task_id)
  }
  return waiting.size > 0
}

/** The text of the JSON that is stored; null if it is too long. The event of the `answer`, which stands on the row besides, is stored without its text. */
export const encode = (gist: PlanGist, answer?: string): string | null => {
  const events = gist.events.map((event) => {
    if (event.event !== "text.delta" || event.data.delta !== answer) return event
    const { attempt, step } = event.data
    return { ...event, data: { step, attempt } }
  })
  const text = JSON.stringify({ ...gist, events })
  return text.length > maxCharacters ? null : text
}

/** The change that stores it, with these other ones: what could not be read before stays unknown. */
export const summed = (
  gist: PlanGist | undefined,
  changes: ReadonlyArray<PlanChange> = []
): Extract<PlanChange, { readonly _tag: "Summed" }> => ({
  _tag: "Summed",
  gist: gist === undefined ? null : encode(gist, answerOf(changes)),
  firstTokenAt: gist?.firstTokenAt ?? null
})

/** The answer of a plan that completes with these changes. */
export const answerOf = (changes: ReadonlyArray<PlanChange>): string | undefined => {
  const settled = changes.find((change) => change._tag === "Settled")
  return settled?.outcome.state === "completed" ? settled.outcome.final.text : undefined
}

const Stored = Schema.Struct({
  seq: Schema.Int,
  isEnded: Schema.Boolean,
  firstTokenAt: Schema.optionalKey(Schema.String),
  events: Schema.Array(Schema.Struct({ seq: Schema.Int, event: Schema.String, data: Schema.Json }))
})
const decodeStored = Schema.decodeUnknownOption(Stored)
const decodeEvent = Schema.decodeUnknownOption(PlanEvent)

const decodePlace = Schema.decodeUnknownOption(
  Schema.Struct({ step: Schema.Int, attempt: Schema.Int, delta: Schema.optionalKey(Schema.String) })
)

/** The event with its text, if it was stored without it. */
const withAnswer = (stored: { readonly event: string; readonly data: Schema.Json }, answer?: string) => {
  const place = stored.event === "text.delta" ? decodePlace(stored.data) : Option.none()
  if (answer === undefined || Option.isNone(place)) return stored
  return { event: stored.event, data: { delta: answer, ...place.value } }
}

/** What is stored, unless this version cannot read it: then the events tell. The row of a plan that has completed has the `answer`, too. */
export const decode = (stored: Schema.Json | null, answer?: string): Option.Option<PlanGist> =>
  Option.flatMap(decodeStored(stored), ({ events, ...gist }) =>
    Option.map(
      Option.all(
        events.map(({ seq, ...event }) =>
          Option.map(decodeEvent(withAnswer(event, answer)), (event) => ({ ...event, seq }))
        )
      ),
      (events) => ({ ...gist, events })
    )
  )

/** Adds all events of the plan that are stored behind the gist. */
export const complete = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  { plan_id }: Pick<Plan, "plan_id">,
  gist: PlanGist
): Effect.fn.Return<PlanGist, StorageError> {
  let whole = gist
  for (;;) {
    const frames = yield* framesBehind(store, plan_id, whole.seq)
    if (frames.length === 0) return whole
    const first = frames.find(({ event }) => event === "text.delta" || event === "reasoning.delta")
    whole = add(whole, frames.map(toEvent), first?.at ?? "")
  }
})

/** What a plan has come to that is taken over: what is on its row, and the events since then. Undefined if it cannot be read: readers then read the events. */
export const resume = <A extends ToldFacts>(
  store: PlanStore["Service"],
  { gist, plan }: Told<A>
): Effect.Effect<PlanGist | undefined> =>
  complete(
    store,
    plan,
    Option.getOrElse(decode(gist), () => upTo(0))
  ).pipe(Effect.orElseSucceed(() => undefined))

/**
 * What the plan has come to, as it ended, was handed over, or waited last, and its end if it has one. Reads the events only where the row
 * does not tell it.
 */
export const read = Effect.fnUntraced(function* <A extends ToldFacts>(
  store: PlanStore["Service"],
  { gist, plan }: Told<A>
): Effect.fn.Return<{ readonly seq: number; readonly events: ReadonlyArray<Numbered> }, StorageError> {
  const stored = Option.filter(decode(gist, plan.final?.text), ({ isEnded }) => isEnded === isSettled(plan))
  const { events, seq } = Option.isSome(stored) ? stored.value : yield* complete(store, plan, upTo(0))
  if (plan.final !== null) return { seq, events: [...events, { seq, event: "final", data: plan.final }] }
  return { seq, events: plan.error === null ? events : [...events, { seq, event: "error", data: plan.error }] }
})
