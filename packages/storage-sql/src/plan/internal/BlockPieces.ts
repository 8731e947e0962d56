import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { Option, Schema } from "effect"

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
export const takeApart = ({ count, event, payload }: EventRow) => {
  const told = event === "text.delta" || event === "reasoning.delta" ? decodeTold(payload) : Option.none()
  if (Option.isNone(told)) return undefined
  const { attempt, delta, deltas, step } = told.value
  const pieces = delta === undefined ? (deltas ?? []) : [delta]
  const rest = JSON.stringify({ step, attempt })
  return pieces.length === count && putTogether(rest, pieces) === payload ? { rest, pieces } : undefined
}

export const putTogether = (rest: string, pieces: ReadonlyArray<string>): string =>
  `${rest.slice(0, -1)},${pieces.length === 1 ? `"delta":${JSON.stringify(pieces[0])}` : `"deltas":${JSON.stringify(pieces)}`}}`
