import { Data, Predicate, Runtime } from "effect"
import { formatProblem, type Problem } from "../config/setting/ConfigProblem.ts"

/** A command that ends without success: the lines to print, and the exit code of the process. */
export class Ended extends Data.TaggedError("Ended")<{ readonly code: number; readonly lines: ReadonlyArray<string> }> {
  override readonly [Runtime.errorExitCode] = this.code
}

/** Exit codes. 64 and 78 are `EX_USAGE` and `EX_CONFIG` of `sysexits.h`; 130 is what shells use for Ctrl-C. */
export const exitCodes = { failed: 1, usage: 64, configuration: 78, interrupted: 130 } as const

export const failed = (line: string): Ended => new Ended({ code: exitCodes.failed, lines: [line] })

export const misused = (line: string): Ended => new Ended({ code: exitCodes.usage, lines: [line] })

export const misconfigured = (problems: ReadonlyArray<Problem>): Ended =>
  new Ended({ code: exitCodes.configuration, lines: problems.map(formatProblem) })

const textOf = (cause: unknown): string => {
  const text = Predicate.hasProperty(cause, "message") ? cause.message : cause
  return Predicate.isString(text) ? text : "an error without a message"
}

/** The message of an error's root cause in one line, without the user and password of a URL. */
export const reasonOf = (cause: unknown): string => {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(", ")
  if (Predicate.hasProperty(cause, "cause") && Predicate.isNotNullish(cause.cause)) return reasonOf(cause.cause)
  return textOf(cause)
    .replaceAll(/\s+/g, " ")
    .replaceAll(/(?<=\/\/)[^/\s]*@/g, "")
}
