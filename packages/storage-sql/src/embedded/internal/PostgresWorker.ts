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

const opened = start({ dataDir: String(workerData) })

const answerTo = async ({ runs }: Asked): Promise<Uint8Array<ArrayBuffer>> => {
  const db = await opened
  let answer: Uint8Array = new Uint8Array()
  await db.runExclusive(async () => {
    for (const run of runs) answer = await db.execProtocolRaw(run)
  })
  if (runs.length === 0) await db.close()
  // A copy, since it may be a part of Postgres' own memory.
  return new Uint8Array(answer)
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
