import { Context, Duration } from "effect"

/** What an operator sets of files. Sizes are bytes. */
export interface FileLimits {
  readonly maxFile: number
  /** Of all files of a caller together. */
  readonly callerQuota: number
  /** Of all files of a session together. */
  readonly sessionQuota: number
  /** How long a file is kept that no session has. */
  readonly ttl: Duration.Duration
}

/** The limits of files. An app that brings none has the usual ones. */
export const FilesConfig = Context.Reference<FileLimits>("@bowline/runtime/config/FilesConfig", {
  defaultValue: () => ({
    maxFile: 33_554_432,
    sessionQuota: 268_435_456,
    callerQuota: 1_073_741_824,
    ttl: Duration.days(7)
  })
})
