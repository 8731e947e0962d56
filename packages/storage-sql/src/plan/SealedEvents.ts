import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type EventRow, pageOf } from "@bowline/runtime/unstable/store/EventRow"
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"
import { dictionary } from "./internal/BlockDictionary.ts"
import { Numbers, toBytes } from "./internal/BlockNumbers.ts"
import { putTogether, takeApart } from "./internal/BlockPieces.ts"
import * as FirstBlocks from "./internal/FirstBlocks.ts"

/** Longer blocks have little in common with others. Shorter ones are searched better, which takes them no longer. */
const longBlock = 32_768
/** The first byte of a block. */
const [short, long] = [2, 3]
/** The names of events that a later version has written pass as they do unsealed. */
const isEventName = (name: string | undefined): name is PlanEvent["event"] => name !== undefined

/** A text in JSON in which texts that are JSON themselves stand as what they say: so they repeat what others say. */
const unfold = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(unfold)
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, unfold(one)]))
  }
  if (typeof value !== "string" || !value.startsWith("{")) return value
  const inner = parse(value)
  return inner !== undefined && JSON.stringify(inner) === value ? { [folded]: inner } : value
}

/** What stands in front of a text that is unfolded. */
const folded = "$"

const fold = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(fold)
  if (typeof value !== "object" || value === null) return value
  const [[name, inner] = [], ...others] = Object.entries(value)
  if (name === folded && others.length === 0) return JSON.stringify(inner)
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fold(one)]))
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A record as it is written; undefined if it could not be put together again byte for byte. */
const unfolded = (record: string): string | undefined => {
  const told = JSON.stringify(unfold(parse(record)))
  return told !== undefined && JSON.stringify(fold(JSON.parse(told))) === record ? told : undefined
}

/** What follows from the texts of rows, one behind the other. */
const shapeOf = (texts: ReadonlyArray<string>) => ({ lengths: texts.map(({ length }) => length), text: texts.join("") })

/**
 * The block of rows that follow one another: their numbers column by column, and then their texts, one behind the other. A row is told by its differences to
 * the one before: to the seq behind that, and to its time. The pieces of text and reasoning are taken out of the payloads of the rows that are told. So they
 * compress like prose, and the last event repeats the whole answer for a few bytes. What all plans have in common is in the dictionary. It takes half a
 * millisecond for 300 rows, and a few for the largest block.
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
  const names = Array.from(new Set(rows.map(({ event }) => event)))
  const records = rows.map(({ record }) => record && (unfolded(record) ?? record))
  const kinds = rows.map(({ record }) => (record === undefined ? 0 : unfolded(record) === undefined ? 1 : 2))
  const texts = shapeOf(rows.flatMap(({ payload }, index) => [records[index] ?? "", parts[index]?.rest ?? payload]))
  const numbers = [
    rows.length,
    ...places.map(({ gap }) => gap),
    ...places.map(({ ms }) => ms),
    ...rows.map(({ count }) => count),
    ...parts.map((part) => (part === undefined ? 0 : 1)),
    ...rows.map(({ event }) => names.indexOf(event)),
    ...kinds,
    ...texts.lengths,
    ...pieces.map(({ length }) => length)
  ]
  // A piece may end in the middle of a character, and the last one may not have its other half.
  const told = JSON.stringify([names, pieces.join("")])
  const block = Buffer.concat([toBytes([...numbers, told.length]), Buffer.from(told + texts.text)])
  return block.length < longBlock
    ? Buffer.concat([
        Buffer.of(short),
        zstdCompressSync(block, { dictionary, params: { [constants.ZSTD_c_compressionLevel]: 9 } })
      ])
    : Buffer.concat([Buffer.of(long), zstdCompressSync(block)])
}

const decodeTexts = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Tuple([Schema.Array(Schema.String), Schema.String]))
)

/** The rows of a block. */
export const unpack = (packed: Uint8Array): ReadonlyArray<EventRow> => {
  if (packed[0] !== short && packed[0] !== long) return FirstBlocks.unpack(packed)
  const block = zstdDecompressSync(packed.subarray(1), packed[0] === short ? { dictionary } : {})
  const numbers = new Numbers(block)
  const length = numbers.next()
  const take = () => numbers.take(length)
  const [gap, ms, count, told, name, kind] = [take(), take(), take(), take(), take(), take()]
  const sizes = numbers.take(2 * length)
  const lengths = numbers.take(count.reduce((sum, counted, index) => sum + counted * (told[index] ?? 0), 0))
  const width = numbers.next()
  const rest = block.toString("utf8", numbers.at)
  const [names, text] = decodeTexts(rest.slice(0, width))
  const nextText = reader(rest, sizes, width)
  const nextPiece = reader(text, lengths)
  let [next, time] = [0, 0]
  return gap.map((far, index): EventRow => {
    const [seq, counted, event] = [next + far, count[index] ?? 1, names[name[index] ?? 0]]
    next = seq + counted
    time += ms[index] ?? 0
    const [record, payload] = [nextText(), nextText()]
    const whole = told[index] === 1 ? putTogether(payload, Array.from({ length: counted }, nextPiece)) : payload
    if (!isEventName(event)) throw new Error("Expected the name of an event")
    const row = { seq, at: fromMillis(time), count: counted, event, payload: whole }
    if (kind[index] === 0) return row
    return { ...row, record: kind[index] === 1 ? record : JSON.stringify(fold(JSON.parse(record))) }
  })
}

/** Reads one text after the other of those that stand there with these lengths. */
const reader = (text: string, lengths: ReadonlyArray<number>, from = 0) => {
  let [index, at] = [0, from]
  return () => text.slice(at, (at += lengths[index++] ?? 0))
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
