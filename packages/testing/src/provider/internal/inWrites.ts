import type { Move } from "../../http/Move.ts"
import * as Http from "../../http/Move.ts"
import type { Turn, TurnMove } from "../Turn.ts"

/** The moves of a host that writes each event of a turn separately, or, after `oneWrite`, many in one write. */
export const inWrites = (turn: Turn, events: (move: TurnMove) => ReadonlyArray<string>): ReadonlyArray<Move> => {
  const moves: Array<Move> = []
  let held: Array<string> | undefined
  const flush = () => {
    if (held !== undefined && held.length > 0) moves.push(Http.write(held.join("")))
    if (held !== undefined) held = []
  }
  for (const move of turn) {
    switch (move._tag) {
      case "OneWrite":
        held ??= []
        break
      case "Wait":
      case "Break":
        flush()
        moves.push(move)
        break
      case "Split":
      case "Slow":
        moves.push(move)
        break
      default:
        if (held === undefined) moves.push(...events(move).map(Http.write))
        else held.push(...events(move))
    }
  }
  flush()
  return moves
}
