import { ResponseTooLarge } from "@bowline/domain/peer/PeerError"
import { maxBytes } from "@bowline/runtime/http/Exchange"
import { failure, type ExchangeError } from "@bowline/runtime/http/ExchangeError"
import { Effect, Stream } from "effect"

const tooLarge = failure("garbled", new ResponseTooLarge({ message: "A message of the server is larger than 8 MiB" }))

/** Where the last event of a chunk ends, behind its blank line; 0 if none ends there. */
const endOfEvents = (chunk: Buffer): number =>
  Math.max(...["\n\n", "\r\n\r\n", "\r\r"].map((blank) => chunk.lastIndexOf(blank) + 1))

/** Ends an answer that is larger than 8 MiB; of a stream of events each event may be as large. */
export const limited = (
  bytes: Stream.Stream<Uint8Array, ExchangeError>,
  isEvents: boolean
): Stream.Stream<Uint8Array, ExchangeError> =>
  Stream.mapAccumEffect(
    bytes,
    () => 0,
    (size, chunk) => {
      const end = isEvents ? endOfEvents(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)) : 0
      const next = end === 0 ? size + chunk.length : chunk.length - end
      return next > maxBytes ? Effect.fail(tooLarge) : Effect.succeed([next, [chunk]] as const)
    }
  )
