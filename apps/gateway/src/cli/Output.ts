import { Effect } from "effect"

/** One line on stdout. */
export const printLine = (line: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(`${line}\n`)
  })

/** One line on stderr. */
export const tell = (line: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${line}\n`)
  })

/** Ends the process when nobody reads its output any more, as `head` does: without a word, and not as a failure. */
export const endWithReader = (exit: (code: number) => void): void => {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => exit(error.code === "EPIPE" ? 0 : 1))
  }
}

/** How long the readers of the output may take for the rest of it when the scope of `outliveReader` closes. */
const lastReading = "2 seconds"

/**
 * From now on the process goes on when nobody reads its output any more, and does not wait for a reader in order to end: a gateway
 * outlives the reader of its log.
 */
export const outliveReader = Effect.acquireRelease(
  Effect.sync(() => {
    for (const stream of [process.stdout, process.stderr])
      stream.removeAllListeners("error").on("error", () => undefined)
  }),
  // Detached: the process has nothing else to do, and mostly ends sooner.
  () =>
    Effect.forkDetach(
      Effect.andThen(
        Effect.sleep(lastReading),
        Effect.sync(() => process.exit())
      )
    )
)
