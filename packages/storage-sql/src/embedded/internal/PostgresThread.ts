import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Answered, Asked } from "./PostgresWorker.ts"

// Its sources run as they are, and as JavaScript.
const entry = new URL(`./PostgresWorker${extname(import.meta.url)}`, import.meta.url)

/** Bytes that both threads have: more than a statement that writes a chunk of a file. */
const roomBytes = 524_288

/**
 * A Postgres in a thread of its own: a statement, a checkpoint or a vacuum keeps the thread that asks from nothing. It answers one run of
 * messages after the other.
 */
export class PostgresThread {
  readonly #worker: Worker
  /** Where the messages of a question are, if they fit: nothing of them is left for the collectors of both threads. */
  readonly #room = new Uint8Array(new SharedArrayBuffer(roomBytes))
  /** Who waits for an answer, by the number of the question; 0 is the start. */
  readonly #waiting = new Map<number, PromiseWithResolvers<Uint8Array>>()
  #asked = 0
  #ended: Error | undefined

  private constructor(dataDir: string) {
    this.#worker = new Worker(entry, {
      workerData: dataDir,
      // It sees no variable of the environment, so no secret.
      env: {},
      execArgv: [],
      name: "postgres",
      // What it leaves behind is small and dead at once: V8 would keep 48 MiB for it.
      resourceLimits: { maxYoungGenerationSizeMb: 8 }
    })
    this.#worker.on("message", ({ answer = new Uint8Array(), error, id }: Answered) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error === undefined) waiting?.resolve(answer)
      else waiting?.reject(error)
    })
    this.#worker.on("error", (error) => this.#end(error instanceof Error ? error : new Error(String(error))))
    this.#worker.on("exit", () => this.#end(new Error("The thread of the embedded database has ended")))
  }

  /** Opens the database in the folder. */
  static async open(dataDir: string): Promise<PostgresThread> {
    const thread = new PostgresThread(dataDir)
    try {
      await thread.#answerTo(0)
      return thread
    } catch (cause) {
      await thread.#worker.terminate()
      throw cause
    }
  }

  /** Executes runs of whole messages of the wire protocol, nothing of another connection between them, and gives the answer to the last one. */
  execute(...runs: ReadonlyArray<Uint8Array>): Promise<Uint8Array> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const id = ++this.#asked
    if (this.#waiting.size === 0 && runs.reduce((length, run) => length + run.length, 0) <= roomBytes) {
      const asked: Asked = { id, runs: this.#inRoom(runs) }
      this.#worker.postMessage(asked)
    } else {
      // Copies, which are moved: a part of a buffer would be sent with the whole buffer.
      const moved = runs.map((run) => new Uint8Array(run))
      const asked: Asked = { id, runs: moved }
      this.#worker.postMessage(
        asked,
        moved.map(({ buffer }) => buffer)
      )
    }
    return this.#answerTo(id)
  }

  /** Closes the database behind what it was asked before, and ends its thread. */
  async close(): Promise<void> {
    await this.execute().catch(() => undefined)
    await this.#worker.terminate()
  }

  #inRoom(runs: ReadonlyArray<Uint8Array>): ReadonlyArray<Uint8Array> {
    let at = 0
    return runs.map((run) => {
      const place = this.#room.subarray(at, (at += run.length))
      place.set(run)
      return place
    })
  }

  #answerTo(id: number): Promise<Uint8Array> {
    const answer = Promise.withResolvers<Uint8Array>()
    this.#waiting.set(id, answer)
    return answer.promise
  }

  #end(error: Error): void {
    this.#ended ??= error
    for (const { reject } of this.#waiting.values()) reject(this.#ended)
    this.#waiting.clear()
  }
}
