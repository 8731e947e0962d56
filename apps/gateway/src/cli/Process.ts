import { Cause, Console, Effect, Option, Predicate, Runtime } from "effect"
import { Ended } from "./Ended.ts"

/** Prints why a command failed, one line for each reason. The command line library reports wrong usage itself. */
const explain = (error: unknown) => {
  if (error instanceof Ended) return Effect.forEach(error.lines, (line) => Console.error(line), { discard: true })
  return Predicate.isTagged(error, "ShowHelp") ? Effect.void : Console.error(String(error))
}

/** Errors that no command expects are printed, too. */
const explainCause = (cause: Cause.Cause<unknown>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.void
  const error = Cause.findErrorOption(cause)
  return Option.isSome(error) ? explain(error.value) : Console.error(Cause.pretty(cause))
}

const start = Runtime.makeRunMain(({ fiber, teardown }) =>
  fiber.addObserver((exit) =>
    teardown(exit, (code) => {
      // A handle that a library left open must not keep the process alive.
      process.exit(code)
    })
  )
)

/** Runs a command as this process. The command handles signals itself. */
export const run = <A, E>(command: Effect.Effect<A, E>): void =>
  start(Effect.tapCause(command, explainCause), { disableErrorReporting: true })
