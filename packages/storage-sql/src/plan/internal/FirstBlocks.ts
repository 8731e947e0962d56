import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { Predicate, Schema } from "effect"
import { zstdDecompressSync } from "node:zlib"
import { Numbers } from "./BlockNumbers.ts"
import { putTogether } from "./BlockPieces.ts"

/** The names of events that a later version has written pass as they do unsealed. */
const EventName = Schema.declare((name): name is PlanEvent["event"] => Predicate.isString(name))

/** The texts of rows of events, column by column, as `zstd-1` has them. */
const Texts = Schema.fromJsonString(
  Schema.Struct({
    event: Schema.Array(EventName),
    payload: Schema.Array(Schema.String),
    text: Schema.String,
    record: Schema.optionalKey(Schema.Array(Schema.NullOr(Schema.String)))
  })
)
const decodeTexts = Schema.decodeUnknownSync(Texts)

/** The rows of a block of `zstd-1`. */
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
