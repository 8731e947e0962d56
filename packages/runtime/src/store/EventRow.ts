import { Schema } from "effect"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"

/**
 * One event of a plan as a reader gets it. `at` is when it was stored, ISO 8601 in UTC. `payload` is the text of a JSON object, without
 * `plan_id`, `session_id` and `at`.
 */
export interface PlanFrame {
  readonly seq: number
  readonly at: string
  readonly event: PlanEvent["event"]
  readonly payload: string
}

/**
 * Events as they are stored. A row holds the frames `seq` to `seq + count - 1`: a single event, or a run of deltas of one attempt.
 * A run keeps its pieces apart, so that a replay yields the original frames. `payload` is the text of a JSON object. What one write
 * stores has one `at` (ISO 8601 in UTC), which never goes back within a plan.
 */
export interface EventRow {
  readonly seq: number
  readonly at: string
  readonly count: number
  readonly event: PlanEvent["event"]
  readonly payload: string
  /** The text of a JSON array: what was recorded of the plan up to this row, and behind the one before. No reader gets it. */
  readonly record?: string
}

/** What a page of stored events holds, in bytes, its last row aside: a reader that catches up holds no more at once. */
export const pageBytes = 1_048_576

/** What a frame takes besides its payload, in bytes. */
export const frameBytes = 128

/** What the frames of a row take in memory, in bytes: an estimate. */
export const bytesOf = ({
  count,
  payload,
  record
}: Pick<EventRow, "count" | "payload"> & { readonly record?: string | null | undefined }): number =>
  Buffer.byteLength(payload) + (record?.length ?? 0) + frameBytes * count

/** The place of the first of these rows, which stand in their order, that holds an event behind this one. */
const firstBehind = (rows: ReadonlyArray<EventRow>, seq: number): number => {
  let from = 0
  let to = rows.length
  while (from < to) {
    const middle = (from + to) >> 1
    const row = rows[middle]
    if (row !== undefined && row.seq + row.count - 1 <= seq) from = middle + 1
    else to = middle
  }
  return from
}

/** The rows from the one that holds the event `after + 1`, as many as a page has. */
export const pageOf = (rows: ReadonlyArray<EventRow>, after: number, limit: number): ReadonlyArray<EventRow> => {
  const page: Array<EventRow> = []
  let bytes = 0
  for (let at = firstBehind(rows, after); page.length < limit && bytes < pageBytes; at++) {
    const row = rows[at]
    if (row === undefined) break
    page.push(row)
    bytes += bytesOf(row)
  }
  return page
}

const encode = (event: PlanEvent): string => JSON.stringify(event.data)

/** The event as the frame with the number `seq`, stored at that time. */
export const toFrame = (seq: number, at: string, event: PlanEvent): PlanFrame => ({
  seq,
  at,
  event: event.event,
  payload: encode(event)
})

const decode = Schema.decodeUnknownSync(PlanEvent)

/** The event that a frame shows. */
export const toEvent = ({ event, payload }: Pick<PlanFrame, "event" | "payload">): PlanEvent =>
  decode({ event, data: JSON.parse(payload) as unknown })

type Delta = Extract<PlanEvent, { readonly event: "text.delta" | "reasoning.delta" }>

/** Whether the event, or its frame, is a piece of text or reasoning. Consecutive pieces of one attempt share a row. */
export const isDelta = <Event extends Pick<PlanEvent, "event">>(event: Event): event is Event & Pick<Delta, "event"> =>
  event.event === "text.delta" || event.event === "reasoning.delta"

/** Whether the event goes on with the text of this one. */
export const continues = (run: Delta, next: PlanEvent): next is Delta =>
  next.event === run.event && next.data.step === run.data.step && next.data.attempt === run.data.attempt

/**
 * The rows for consecutive events of one plan that are stored at that time. The first event has the number `seq`. `recordOf` gives what is recorded with
 * an event.
 */
export const fromEvents = (
  seq: number,
  at: string,
  events: ReadonlyArray<PlanEvent>,
  recordOf: (event: PlanEvent) => ReadonlyArray<object> = () => []
): ReadonlyArray<EventRow> => {
  const rows: Array<EventRow> = []
  for (let index = 0; index < events.length;) {
    const event = events[index]
    if (event === undefined) break
    const deltas: Array<string> = []
    if (isDelta(event)) {
      for (let next: PlanEvent | undefined = event; next !== undefined && continues(event, next);) {
        deltas.push(next.data.delta)
        next = events[index + deltas.length]
      }
    }
    const count = Math.max(deltas.length, 1)
    const payload =
      count > 1 && isDelta(event)
        ? JSON.stringify({ step: event.data.step, attempt: event.data.attempt, deltas })
        : encode(event)
    const records = events.slice(index, index + count).flatMap(recordOf)
    const record = records.length === 0 ? {} : { record: JSON.stringify(records) }
    rows.push({ seq: seq + index, at, count, event: event.event, payload, ...record })
    index += count
  }
  return rows
}

const Run = Schema.fromJsonString(
  Schema.Struct({ step: Schema.Int, attempt: Schema.Int, deltas: Schema.Array(Schema.String) })
)
const decodeRun = Schema.decodeUnknownSync(Run)

/** The frames that a row was made of, byte for byte. */
export const toFrames = (row: EventRow): ReadonlyArray<PlanFrame> => {
  if (row.count === 1) return [{ seq: row.seq, at: row.at, event: row.event, payload: row.payload }]
  const { step, attempt, deltas } = decodeRun(row.payload)
  return deltas.map((delta, index) => ({
    seq: row.seq + index,
    at: row.at,
    event: row.event,
    payload: JSON.stringify({ step, attempt, delta })
  }))
}
