import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type EventRow, pageOf } from "@bowline/runtime/unstable/store/EventRow"
import { Option, Predicate, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { zstdCompressSync, zstdDecompressSync } from "node:zlib"

/** How a sealed plan is written: the zstd of what `pack` puts together, for each of its blocks. Another way gets another name. */
export const codec = "zstd-1"

/** The names of events that a later version has written pass as they do unsealed. */
const EventName = Schema.declare((name): name is PlanEvent["event"] => Predicate.isString(name))

/**
 * The texts of rows of events, column by column. The pieces of text and reasoning are taken out of the payloads of the rows that are told, and stand one
 * behind the other in `text`. So they compress like prose, and the last event repeats the whole answer for a few bytes.
 */
const Texts = Schema.fromJsonString(
  Schema.Struct({
    event: Schema.Array(EventName),
    payload: Schema.Array(Schema.String),
    text: Schema.String,
    // What an earlier version has sealed has none. That version reads a block without looking at it.
    record: Schema.optionalKey(Schema.Array(Schema.NullOr(Schema.String)))
  })
)
const decodeTexts = Schema.decodeUnknownSync(Texts)

/** Integers in as few bytes as they need, 7 bits in each; those below 0 are the odd ones. */
const toBytes = (numbers: ReadonlyArray<number>): Buffer => {
  const bytes: Array<number> = []
  for (const number of numbers) {
    let rest = number < 0 ? -2 * number - 1 : 2 * number
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128))
    bytes.push(rest)
  }
  return Buffer.from(bytes)
}

/** Reads such integers from the first byte on. */
class Numbers {
  readonly #bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  next(): number {
    let [number, scale] = [0, 1]
    for (;;) {
      const byte = this.#bytes.readUInt8(this.at++)
      number += (byte % 128) * scale
      if (byte < 128) return number % 2 === 0 ? number / 2 : -(number + 1) / 2
      scale *= 128
    }
  }

  take(count: number): ReadonlyArray<number> {
    return Array.from({ length: count }, () => this.next())
  }
}

/** A piece of text or reasoning, or a run of them. */
const Told = Schema.fromJsonString(
  Schema.Struct({
    step: Schema.Int,
    attempt: Schema.Int,
    delta: Schema.optionalKey(Schema.String),
    deltas: Schema.optionalKey(Schema.Array(Schema.String))
  })
)
const decodeTold = Schema.decodeUnknownOption(Told)

/** The payload of a row without its pieces of text, and those; undefined if it has none, or could not be put together again byte for byte. */
const takeApart = ({ count, event, payload }: EventRow) => {
  const told = event === "text.delta" || event === "reasoning.delta" ? decodeTold(payload) : Option.none()
  if (Option.isNone(told)) return undefined
  const { attempt, delta, deltas, step } = told.value
  const pieces = delta === undefined ? (deltas ?? []) : [delta]
  const rest = JSON.stringify({ step, attempt })
  return pieces.length === count && putTogether(rest, pieces) === payload ? { rest, pieces } : undefined
}

const putTogether = (rest: string, pieces: ReadonlyArray<string>): string =>
  `${rest.slice(0, -1)},${pieces.length === 1 ? `"delta":${JSON.stringify(pieces[0])}` : `"deltas":${JSON.stringify(pieces)}`}}`

/**
 * The block of rows that follow one another: their numbers column by column, and then their texts. A row is told by its differences to the one before: to
 * the seq behind that, and to its time. It takes half a millisecond for 300 rows, and a few for the largest block.
 */
export const pack = (rows: ReadonlyArray<EventRow>): Buffer => {
  let [next, time] = [0, 0]
  const places = rows.map(({ at, count, seq }) => {
    const place = { gap: seq - next, ms: Date.parse(at) - time }
    next = seq + count
    time += place.ms
    return place
  })
  const parts = rows.map(takeApart)
  const pieces = parts.flatMap((part) => part?.pieces ?? [])
  const numbers = [
    rows.length,
    ...places.map(({ gap }) => gap),
    ...places.map(({ ms }) => ms),
    ...rows.map(({ count }) => count),
    ...parts.map((part) => (part === undefined ? 0 : 1)),
    ...pieces.map(({ length }) => length)
  ]
  const texts: typeof Texts.Type = {
    event: rows.map(({ event }) => event),
    payload: rows.map(({ payload }, index) => parts[index]?.rest ?? payload),
    text: pieces.join(""),
    ...(rows.some(({ record }) => record !== undefined) && { record: rows.map(({ record = null }) => record) })
  }
  return zstdCompressSync(Buffer.concat([toBytes(numbers), Buffer.from(JSON.stringify(texts))]))
}

/** The rows of a block. */
export const unpack = (packed: Uint8Array): ReadonlyArray<EventRow> => {
  const block = zstdDecompressSync(packed)
  const numbers = new Numbers(block)
  const length = numbers.next()
  const [gap, ms, count, told] = [
    numbers.take(length),
    numbers.take(length),
    numbers.take(length),
    numbers.take(length)
  ]
  const lengths = numbers.take(count.reduce((sum, counted, index) => sum + counted * (told[index] ?? 0), 0))
  const { event, payload, record = [], text } = decodeTexts(block.toString("utf8", numbers.at))
  let [next, time, piece, at] = [0, 0, 0, 0]
  const nextPiece = () => text.slice(at, (at += lengths[piece++] ?? 0))
  return event.map((name, index): EventRow => {
    const [seq, counted, rest] = [next + (gap[index] ?? 0), count[index] ?? 1, payload[index] ?? ""]
    next = seq + counted
    time += ms[index] ?? 0
    const whole = told[index] === 1 ? putTogether(rest, Array.from({ length: counted }, nextPiece)) : rest
    const recorded = record[index] ?? null
    const row = { seq, at: fromMillis(time), count: counted, event: name, payload: whole }
    return recorded === null ? row : { ...row, record: recorded }
  })
}

/**
 * When a plan that is not over has ended, for the row of what is sealed of it. The partition of this time is never dropped: when the plan is over, the row
 * becomes a part of the one that it has then.
 */
export const notEnded = "infinity"

/** Where each block of the row `s` lies in its body. */
const places = `unnest(s.last_seqs, s.ends) with ordinality as u(last_seq, finish, place)`
const startOf = "coalesce(s.ends[u.place::int - 1], 0)"
const blockOf = "substring(b.body from b.start + 1 for b.finish - b.start) as block"

/** What a statement finds of a sealed plan: the block that holds the event behind a cursor. */
export interface SealedBlock {
  readonly block: Uint8Array
}

/**
 * Finds the block with the event `after + 1`, of a plan that ended behind `since`, or has not. The time of its end leads to the one partition; until a plan
 * that has waited is sealed at its end, its first events are where they were. It reads nothing but this block, since Postgres has not compressed the body.
 */
export const findBlock = (sql: SqlClient.SqlClient, id: PlanId, after: number, since: string) => sql<SealedBlock>`
select ${sql.literal(blockOf)}
from plans p
cross join lateral (
  select s.body, ${sql.literal(startOf)} as start, u.finish
  from (
    select * from sealed s where s.plan_id = p.id and s.ended_at = p.finished_at
    union all
    select * from sealed s where s.plan_id = p.id and s.ended_at = ${notEnded}
  ) s cross join lateral ${sql.literal(places)}
  where u.last_seq > ${after} order by u.last_seq limit 1
) b
where p.id = ${id} and coalesce(p.finished_at, ${notEnded}) > ${since}`

/** The last block of each of these plans, which are not over, whose events are before this one; without it the last of all. */
export const findBlocksBefore = (
  sql: SqlClient.SqlClient,
  plans: ReadonlyArray<{ readonly plan_id: PlanId; readonly seq: number | undefined }>
) => sql<SealedBlock & { readonly plan_id: PlanId }>`
select g.plan_id, ${sql.literal(blockOf)}
from json_to_recordset(${JSON.stringify(plans)}::json) as g(plan_id text, seq int)
cross join lateral (
  select s.body, ${sql.literal(startOf)} as start, u.finish from sealed s cross join lateral ${sql.literal(places)}
  where s.plan_id = g.plan_id and s.ended_at = ${notEnded} and (g.seq is null or u.last_seq < g.seq)
  order by u.last_seq desc limit 1
) b`

/** The page of a block that `events` gives. */
export const readBlock = ({ block }: SealedBlock, after: number, limit: number): ReadonlyArray<EventRow> =>
  pageOf(unpack(block), after, limit)
