import { openSpan } from "@bowline/runtime/unstable/telemetry/TraceContext"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Formatter, Logger, LogLevel } from "effect"
import type { Writable } from "node:stream"

/** A line of JSON. Within a trace it has the ids of the trace and of the open span, by the names of OpenTelemetry. */
export const json = Logger.make<unknown, string>((options) => {
  const line = Logger.formatStructured.log(options)
  const span = openSpan(options.fiber.context)
  return Formatter.formatJson({
    ...line,
    message: messageOf(line.message),
    ...(span !== undefined && { trace_id: span.traceId, span_id: span.spanId })
  })
})

/** One text, also where several things were logged together: what reads the log has one type for the field. */
const messageOf = (message: unknown): string =>
  (Array.isArray(message) ? message : [message])
    .map((part: unknown) => (typeof part === "string" ? part : Formatter.formatJson(part)))
    .join(" ")

/** Keeps lines below the level from a logger. Warnings are counted also where the operator does not want to read them. */
export const atLeast = (level: LogLevel.LogLevel, logger: Logger.Logger<unknown, void>): Logger.Logger<unknown, void> =>
  Logger.make((line) => (LogLevel.isLessThan(line.logLevel, level) ? undefined : logger.log(line)))

const dropped = counter({
  name: "bowline.log.dropped",
  description: "Lines of the log that were dropped, since its reader does not keep up"
})

/** How many bytes of the log may wait for its reader. */
const maxUnread = 1_048_576

/** Drops lines while the reader of the log does not keep up: they would fill the memory. */
export const asRead = (log: Writable, logger: Logger.Logger<unknown, void>): Logger.Logger<unknown, void> =>
  Logger.make((line) =>
    log.writableLength > maxUnread ? dropped.updateUnsafe(1, {}, line.fiber.context) : logger.log(line)
  )
