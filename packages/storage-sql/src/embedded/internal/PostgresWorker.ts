import { parentPort, workerData } from "node:worker_threads"
import { describe, start } from "./Postgres.ts"

/** Runs of whole messages of the wire protocol, nothing of another connection between them. Without any, the database is closed. */
export interface Asked {
  readonly id: number
  readonly runs: ReadonlyArray<Uint8Array>
}

/** What the last run was answered with, or why it failed. */
export interface Answered {
  readonly id: number
  readonly answer?: Uint8Array
  readonly error?: Error
}

const toError = (cause: unknown): Error => {
  const described = describe(cause)
  return described instanceof Error ? described : new Error(String(described))
}

const join = (pieces: ReadonlyArray<Uint8Array>): Uint8Array<ArrayBuffer> => {
  const joined = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    joined.set(piece, at)
    at += piece.length
  }
  return joined
}

const opened = start({ dataDir: String(workerData) })

const answerTo = async ({ runs }: Asked): Promise<Uint8Array<ArrayBuffer>> => {
  const db = await opened
  let pieces: Array<Uint8Array<ArrayBuffer>> = []
  await db.runExclusive(async () => {
    for (const run of runs) {
      pieces = []
      // `execProtocolRaw` would parse each message of each answer, and keep it for as long as the thread runs.
      await db.execProtocolRawStream(run, {
        // A copy, since it is a part of Postgres' own memory.
        onRawData: (bytes) => pieces.push(new Uint8Array(bytes))
      })
    }
  })
  if (runs.length === 0) await db.close()
  const [first = new Uint8Array(), ...rest] = pieces
  return rest.length === 0 ? first : join(pieces)
}

const reply = (answered: Answered, moved: Array<ArrayBuffer> = []) => parentPort?.postMessage(answered, moved)

parentPort?.on("message", (asked: Asked) => {
  const { id } = asked
  answerTo(asked).then(
    (answer) => reply({ id, answer }, [answer.buffer]),
    (cause: unknown) => reply({ id, error: toError(cause) })
  )
})
opened.then(
  () => reply({ id: 0 }),
  (cause: unknown) => reply({ id: 0, error: toError(cause) })
)
