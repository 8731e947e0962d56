import { Data, Predicate, Runtime } from "effect"
import { formatProblem, type Problem } from "../setting/Problem.ts"

/** A command that ends without success: what to say of it, on a line of its own, and the exit code of the process. */
export class Ended extends Data.TaggedError("Ended")<{ readonly code: number; readonly lines: ReadonlyArray<string> }> {
  override readonly [Runtime.errorExitCode] = this.code
}

/** Exit codes: `sysexits.h` has the one of a configuration, shells have that of Ctrl-C. */
export const exitCodes = { failed: 1, configuration: 78, interrupted: 130 } as const

export const failed = (line: string): Ended => new Ended({ code: exitCodes.failed, lines: [line] })

export const misconfigured = (problems: ReadonlyArray<Problem>): Ended =>
  new Ended({ code: exitCodes.configuration, lines: problems.map(formatProblem) })

const textOf = (cause: unknown): string => {
  const text = Predicate.hasProperty(cause, "message") ? cause.message : cause
  return Predicate.isString(text) ? text : "an error without a message"
}

/** What a foreign error says at its root, in one line, and without who is named in a URL and the password there. */
export const reasonOf = (cause: unknown): string => {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ")
  if (Predicate.hasProperty(cause, "cause") && Predicate.isNotNullish(cause.cause)) return reasonOf(cause.cause)
  return textOf(cause)
    .replaceAll(/\s+/g, " ")
    .replaceAll(/(?<=\/\/)[^/\s]*@/g, "")
}
