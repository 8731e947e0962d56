import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Answered, Asked } from "./PostgresWorker.ts"

// Its sources run as they are, and as JavaScript.
const entry = new URL(`./PostgresWorker${extname(import.meta.url)}`, import.meta.url)

/**
 * A Postgres in a thread of its own: a statement, a checkpoint or a vacuum keeps the thread that asks from nothing. It answers one run of
 * messages after the other.
 */
export class PostgresThread {
  readonly #worker: Worker
  /** Who waits for an answer, by the number of the question; 0 is the start. */
  readonly #waiting = new Map<number, PromiseWithResolvers<Uint8Array>>()
  #asked = 0
  #ended: Error | undefined

  private constructor(dataDir: string) {
    // It sees no variable of the environment, so no secret.
    this.#worker = new Worker(entry, { workerData: dataDir, env: {}, execArgv: [], name: "postgres" })
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
    // Copies, which are moved: a part of a buffer would be sent with the whole buffer.
    const moved = runs.map((run) => new Uint8Array(run))
    const asked: Asked = { id: ++this.#asked, runs: moved }
    const answer = this.#answerTo(asked.id)
    this.#worker.postMessage(
      asked,
      moved.map(({ buffer }) => buffer)
    )
    return answer
  }

  /** Closes the database behind what it was asked before, and ends its thread. */
  async close(): Promise<void> {
    await this.execute().catch(() => undefined)
    await this.#worker.terminate()
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
