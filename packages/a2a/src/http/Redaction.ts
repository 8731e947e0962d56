import * as JsonValue from "@bowline/domain/json/JsonValue"
import { Record, Result, type Schema } from "effect"

const mark = "[redacted]"

const isList = (json: Schema.JsonArray | Schema.JsonObject): json is Schema.JsonArray => Array.isArray(json)

/** JSON without a secret in its strings. The names of members stay: they are the protocol's. At most 64 levels deep. */
export const redacted = (json: Schema.Json, secret: string): Schema.Json => {
  if (typeof json === "string") return json.replaceAll(secret, mark)
  if (typeof json !== "object" || json === null) return json
  return isList(json) ? json.map((item) => redacted(item, secret)) : Record.map(json, (item) => redacted(item, secret))
}

/** Nothing that was parsed is anything else, unless it could not be written again. */
const isJson = (parsed: unknown): parsed is Schema.Json => JsonValue.problem(parsed) === undefined

/**
 * A text without a secret of printable ASCII. Where it is JSON, its strings are looked into: an escape can stand for any
 * character of the secret, and the secret can be the name of a member.
 */
export const redactedText = (text: string, secret: string): string => {
  if (!text.includes(secret) && !/\\[u/"\\]/.test(text)) return text
  const parsed = Result.try(() => JSON.parse(text) as unknown)
  return Result.isSuccess(parsed) && isJson(parsed.success)
    ? JSON.stringify(redacted(parsed.success, secret))
    : text.replaceAll(secret, mark)
}
