import { Data, Runtime } from "effect"

/** A command that ends without success: what to say of it, on a line of its own, and the exit code of the process. */
export class Ended extends Data.TaggedError("Ended")<{ readonly code: number; readonly lines: ReadonlyArray<string> }> {
  override readonly [Runtime.errorExitCode] = this.code
}

/** Exit codes: `sysexits.h` has the one of a configuration, shells have that of Ctrl-C. */
export const exitCodes = { failed: 1, configuration: 78, interrupted: 130 } as const

export const failed = (line: string): Ended => new Ended({ code: exitCodes.failed, lines: [line] })

/** What a foreign error says, in one line. */
export const reasonOf = (cause: unknown): string =>
  cause instanceof AggregateError
    ? cause.errors.map(reasonOf).join(", ")
    : cause instanceof Error
      ? cause.message
      : String(cause)
