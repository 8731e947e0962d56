import { Effect, Stream, type Duration } from "effect"
import { Fault } from "./Host.ts"

/** What a host does with the body of an answer, in order. The end of the list is the end of the body. */
export type Move = { readonly _tag: "Write"; readonly bytes: Uint8Array } | Pace

/** The moves that write nothing. */
export type Pace =
  | { readonly _tag: "Wait"; readonly effect: Effect.Effect<void> }
  | { readonly _tag: "Break"; readonly kind: Fault["kind"] }
  | { readonly _tag: "Split"; readonly size: number }
  | { readonly _tag: "Slow"; readonly delay: Duration.Input }

const encoder = new TextEncoder()

/** One write. */
export const write = (piece: string | Uint8Array): Move => ({
  _tag: "Write",
  bytes: typeof piece === "string" ? encoder.encode(piece) : piece
})

/** Waits. */
export const wait = (duration: Duration.Input): Pace => until(Effect.sleep(duration))

/** Waits for something that the test decides, such as a `Deferred`. */
export const until = (effect: Effect.Effect<void>): Pace => ({ _tag: "Wait", effect })

/** Writes nothing more, and keeps the connection open. */
export const stall: Pace = until(Effect.never)

/** Closes the connection before the body is whole: over HTTP/1.1 a chunked body without its last chunk. */
export const cut: Pace = { _tag: "Break", kind: "cut" }

/** Resets the connection (RST). Bytes that the client has not read yet may be lost. */
export const reset: Pace = { _tag: "Break", kind: "reset" }

/**
 * From here on every write is split into pieces of `size` bytes, also in the middle of a character. On a socket, a busy client
 * reads several pieces at once: `slow` keeps them apart.
 */
export const split = (size: number): Pace => ({ _tag: "Split", size })

/** From here on there is a pause before every piece. */
export const slow = (delay: Duration.Input): Pace => ({ _tag: "Slow", delay })

const pieces = (bytes: Uint8Array, size: number): ReadonlyArray<Uint8Array> =>
  bytes.length <= size
    ? [bytes]
    : Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size)
      )

/**
 * Plays the moves: one element for each write.
 *
 * @example
 * ```ts
 * import { cut, reset, slow, split, stall, toStream, until, wait, write } from "@bowline/testing/http/Move"
 * import { Effect } from "effect"
 *
 * // A body in pieces of three bytes, slowly, which breaks off in the middle.
 * export const broken = toStream([split(3), slow("10 millis"), write("data: half"), wait("1 second"), cut])
 * // One that says nothing more, and one that a test resets when it likes.
 * export const silent = toStream([write("data: 1\n\n"), stall])
 * export const ended = toStream([until(Effect.sleep("1 minute")), reset])
 * ```
 */
export const toStream = (moves: ReadonlyArray<Move>): Stream.Stream<Uint8Array, Fault> =>
  Stream.suspend(() => {
    let size = Number.POSITIVE_INFINITY
    let delay: Duration.Input | undefined
    const play = (move: Move): Stream.Stream<Uint8Array, Fault> => {
      switch (move._tag) {
        case "Write": {
          const written = Stream.fromIterable(pieces(move.bytes, size))
          const pause = delay
          return pause === undefined ? written : Stream.tap(written, () => Effect.sleep(pause))
        }
        case "Wait":
          return Stream.fromEffectDrain(move.effect)
        case "Break":
          return Stream.fail(new Fault({ kind: move.kind }))
        case "Split":
          size = move.size
          return Stream.empty
        case "Slow":
          delay = move.delay
          return Stream.empty
      }
    }
    return Stream.flatMap(Stream.fromIterable(moves), play)
  })
