import { Cause, Console, Effect, Option, Predicate, Runtime } from "effect"
import { Ended } from "./Ended.ts"

/** Says why a command failed, each thing once, on a line of its own. The command line says itself what is wrong with its usage. */
const explain = (error: unknown) => {
  if (error instanceof Ended) return Effect.forEach(error.lines, (line) => Console.error(line), { discard: true })
  return Predicate.isTagged(error, "ShowHelp") ? Effect.void : Console.error(String(error))
}

/** Also of what nobody had thought of. */
const explainCause = (cause: Cause.Cause<unknown>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.void
  const error = Cause.findErrorOption(cause)
  return Option.isSome(error) ? explain(error.value) : Console.error(Cause.pretty(cause))
}

const start = Runtime.makeRunMain(({ fiber, teardown }) =>
  fiber.addObserver((exit) =>
    teardown(exit, (code) => {
      // What a library may have left open does not keep a process that has ended.
      process.exit(code)
    })
  )
)

/** Runs a command as this process. Signals are the command's own matter. */
export const run = <A, E>(command: Effect.Effect<A, E>): void =>
  start(Effect.tapCause(command, explainCause), { disableErrorReporting: true })
