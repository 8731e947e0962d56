import { ResponseTooLarge } from "@bowline/domain/peer/PeerError"
import { maxBytes } from "@bowline/runtime/unstable/http/Exchange"
import { failure, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { Effect, Stream } from "effect"
import * as Pace from "./Pace.ts"

const tooLarge = failure("garbled", new ResponseTooLarge({ message: "A message of the server is larger than 8 MiB" }))

const blankLines = ["\n\n", "\r\n\r\n", "\r\r"]

/** How many events end in a chunk, and where the last one does, behind its blank line; 0 if none ends there. */
const eventsIn = (chunk: Buffer): { readonly count: number; readonly end: number } => {
  let count = 0
  let end = 0
  for (const blank of blankLines) {
    for (let at = chunk.indexOf(blank); at !== -1; at = chunk.indexOf(blank, at + blank.length)) {
      count++
      end = Math.max(end, at + blank.length)
    }
  }
  return { count, end }
}

/** Ends an answer that is larger than 8 MiB; of a stream of events each event may be as large, and too many are slowed down. */
export const limited = (
  bytes: Stream.Stream<Uint8Array, ExchangeError>,
  isEvents: boolean
): Stream.Stream<Uint8Array, ExchangeError> =>
  Stream.suspend(() => {
    const pace = Pace.make()
    return Stream.mapAccumEffect(
      bytes,
      () => 0,
      (size, chunk) => {
        const { count, end } = isEvents
          ? eventsIn(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
          : { count: 0, end: 0 }
        const next = end === 0 ? size + chunk.length : chunk.length - end
        return next > maxBytes ? Effect.fail(tooLarge) : Effect.as(pace(count), [next, [chunk]] as const)
      }
    )
  })
