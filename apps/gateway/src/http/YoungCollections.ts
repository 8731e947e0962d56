import { Effect, Stream } from "effect"
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks"
import { getHeapStatistics, setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/** So many bytes of bodies leave some 16 MiB of buffers. */
const bytesBetween = 4_194_304

/** By so many bytes V8's heap may grow after a collection of the whole heap. */
const room = 33_554_432

/** How V8's heap grows after a collection of the whole heap. */
export class HeapGrowth {
  /** The smallest size since then. */
  #least = Infinity
  /** Whether it has grown by less than it may. */
  hasRoom = true

  /** Notes how many bytes are in use. */
  look(used: number): void {
    this.#least = Math.min(this.#least, used)
    this.hasRoom = used < this.#least + room
  }

  /** The whole heap was collected: its size counts from the next look on. */
  restart(): void {
    this.#least = Infinity
  }
}

const growth = new HeapGrowth()

const isCollector = (value: unknown): value is (options: { readonly type: "minor" }) => void =>
  typeof value === "function"

/** The types of Node.js know no `detail` of a collection. */
const kindOf = (entry: object): unknown => {
  const detail: unknown = Reflect.get(entry, "detail")
  return typeof detail === "object" && detail !== null ? Reflect.get(detail, "kind") : undefined
}

/**
 * Makes the function that asks V8 to collect the young generation alone: V8 gives it to contexts that are made behind the flag. While V8 marks the whole heap nothing is asked for: V8 would
 * finish the marking at once, in one long turn of the event loop. Node.js reports that V8 has begun to mark in the check phase of that turn, so the function asks in that phase.
 */
const makeCollect = (): (() => void) => {
  setFlagsFromString("--expose-gc")
  const gc: unknown = runInNewContext("gc")
  setFlagsFromString("--no-expose-gc")
  if (!isCollector(gc)) return () => {}
  let isMarking = false
  const note = (entries: ReadonlyArray<PerformanceEntry>): void => {
    for (const kind of entries.map(kindOf)) {
      if (kind === constants.NODE_PERFORMANCE_GC_INCREMENTAL) isMarking = true
      if (kind !== constants.NODE_PERFORMANCE_GC_MAJOR) continue
      isMarking = false
      growth.restart()
    }
  }
  const observer = new PerformanceObserver((list) => note(list.getEntries()))
  observer.observe({ entryTypes: ["gc"] })
  let isAsked = false
  return () => {
    // V8 may begin to mark after a collection: the next one is asked for in another turn, when that is known.
    if (isAsked) return
    isAsked = true
    setImmediate(() => {
      isAsked = false
      note(observer.takeRecords())
      if (!isMarking) gc({ type: "minor" })
      growth.look(getHeapStatistics().used_heap_size)
    })
  }
}

let collect: (() => void) | undefined
let left = bytesBetween

/**
 * Counts the bytes of all bodies together, and collects the young generation once in a while. The buffers in which bodies come, and go on to the database, are outside of V8's heap: it
 * counts them, and collects the whole heap for every 64 MiB, which all streams wait for. Nearly all of them are dead by then: a young collection frees them in 3 ms.
 */
const countBytes = (bytes: number): void => {
  left -= bytes
  if (left > 0) return
  left = bytesBetween
  collect ??= makeCollect()
  collect()
}

/** How many bodies come. */
let open = 0

/** While bodies come one thread marks the heap: else four do at once, and what serves waits for them where they share its core. */
const coming = Effect.acquireRelease(
  Effect.sync(() => {
    if (open++ === 0) setFlagsFromString("--optimize-gc-for-battery")
  }),
  () =>
    Effect.sync(() => {
      if (--open === 0) setFlagsFromString("--no-optimize-gc-for-battery")
    })
)

/** The pieces of a large body. Streams beside it are not late for the collections that it asks for. */
export const collected = <E>(content: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  Stream.unwrap(
    Effect.as(
      coming,
      Stream.map(content, (piece) => {
        countBytes(piece.length)
        return piece
      })
    )
  )

/** Frees the memory of a piece, if the piece is its whole buffer. */
const free = ({ buffer, byteLength }: Uint8Array): void => {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

/**
 * The pieces of a body to which nobody else has a reference. The reader may use a piece until it asks for the next one: then its memory is freed, without a collection. While many bodies wait for
 * each other their pieces move to the old generation, where only a collection of the whole heap would free them.
 *
 * Without room pieces are left to V8, which counts them and so collects the whole heap soon. Otherwise it would do that much later, when streams beside the bodies have made the heap three times as
 * large: that takes a longer turn, and more memory.
 */
export const owned = <E>(
  content: Stream.Stream<Uint8Array, E>,
  heap: Pick<HeapGrowth, "hasRoom"> = growth
): Stream.Stream<Uint8Array, E> =>
  Stream.suspend(() => {
    let before: Uint8Array | undefined
    // One by one: in an array all pieces would be freed but the last, before the first is read.
    return Stream.map(Stream.rechunk(content, 1), (piece) => {
      if (before !== undefined && heap.hasRoom) free(before)
      before = piece
      return piece
    })
  })
