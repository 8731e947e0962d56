import { DateTime } from "effect"

/** ISO 8601 in UTC with milliseconds, as every timestamp on the wire, from milliseconds since 1970. */
export const fromMillis = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis))
