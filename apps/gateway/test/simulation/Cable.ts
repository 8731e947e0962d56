import type { Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Duplex } from "node:stream"

type Process = Site["process"]
type Taken = (error?: Error) => void

const reset = (): Error => Object.assign(new Error("write ECONNRESET"), { code: "ECONNRESET" })

/**
 * One end of a connection between two simulated processes. What comes from the other end comes as a task of its process: one that is killed
 * gets nothing any more, and one that is frozen gets it later.
 */
class CableEnd extends Duplex {
  readonly #process: Process
  #other: CableEnd | undefined
  /** Tells the writer that what it has written last is read. */
  #taken: Taken | undefined

  constructor(process: Process) {
    super()
    this.#process = process
  }

  join(other: CableEnd): void {
    this.#other = other
  }

  #atOther(task: (other: CableEnd) => void): void {
    const other = this.#other
    if (other !== undefined) other.#process.post(() => task(other))
  }

  override _write(bytes: Uint8Array, _: BufferEncoding, callback: Taken): void {
    const { random, loop } = this.#process
    const taken: Taken = (error) => this.#process.post(() => callback(error))
    if (bytes.length < 2 || !random.chance(20)) return this.#deliver(bytes, taken)
    // The network cuts it in two, anywhere.
    const cut = random.int(1, bytes.length - 1)
    this.#deliver(bytes.subarray(0, cut), (error) => {
      if (error !== undefined) return taken(error)
      loop.after(random.int(0, 20), () => this.#deliver(bytes.subarray(cut), taken))
    })
  }

  #deliver(bytes: Uint8Array, taken: Taken): void {
    this.#atOther((other) => {
      if (other.destroyed) taken(reset())
      else if (other.push(bytes)) taken()
      else other.#taken = taken
    })
  }

  override _read(): void {
    const taken = this.#taken
    this.#taken = undefined
    taken?.()
  }

  override _final(callback: Taken): void {
    this.#atOther((other) => other.push(null))
    callback()
  }

  // As the end of a process does: the other one reads the end, and its next write fails.
  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#taken?.(reset())
    this.#atOther((other) => {
      if (!other.destroyed && !other.readableEnded) other.push(null)
    })
    callback(error)
  }
}

/** Both ends of a new connection. */
export const connect = (client: Process, server: Process): { readonly client: Duplex; readonly server: Duplex } => {
  const ends = { client: new CableEnd(client), server: new CableEnd(server) }
  ends.client.join(ends.server)
  ends.server.join(ends.client)
  return ends
}
