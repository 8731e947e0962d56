import { Cause, Effect, Option, Runtime } from "effect"
import { Ended } from "./Ended.ts"
import { endWithReader, tell } from "./Output.ts"
import { oneLine } from "./TerminalText.ts"

/** Prints why a command failed, one line for each reason. */
const explain = (error: unknown) =>
  error instanceof Ended
    ? Effect.forEach(error.lines, (line) => tell(oneLine(line)), { discard: true })
    : tell(oneLine(String(error)))

/** Errors that no command expects are printed, too. */
const explainCause = (cause: Cause.Cause<unknown>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.void
  const error = Cause.findErrorOption(cause)
  return Option.isSome(error) ? explain(error.value) : tell(Cause.pretty(cause))
}

/** A handle that a library left open does not keep the process alive, but a reader that has not read everything yet does. */
const start = Runtime.makeRunMain(({ fiber, teardown }) =>
  fiber.addObserver((exit) =>
    teardown(exit, (code) => {
      process.exitCode = code
      process.stdout.write("", () => process.stderr.write("", () => process.exit()))
    })
  )
)

/** Runs a command as this process. The command handles signals itself. */
export const run = <A, E>(command: Effect.Effect<A, E>): void => {
  endWithReader((code) => process.exit(code))
  start(Effect.tapCause(command, explainCause), { disableErrorReporting: true })
}
