import { Option, Predicate, Schema } from "effect"

/** What a failure says of itself, whatever the server's dialect. `signals` is all of it in lower case, without links. */
export interface FailureBody {
  readonly message: string
  /** Its codes and its type. */
  readonly codes: ReadonlyArray<string>
  /** The HTTP status that it names. */
  readonly status: number | undefined
  readonly signals: string
}

const parseJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

const asText = (value: unknown): string => (typeof value === "string" ? value : "")

const asStatus = (value: unknown): number | undefined => {
  const number = typeof value === "string" && value !== "" ? Number(value) : value
  return typeof number === "number" && number >= 400 && number < 600 ? number : undefined
}

/** The object that describes the failure: under `error`, in a list, or the body itself. */
const describing = (body: unknown): unknown => {
  if (Array.isArray(body)) return describing(body[0])
  return Predicate.isObject(body) && body["error"] !== undefined && body["error"] !== null ? body["error"] : body
}

const isError = (body: unknown): boolean =>
  Predicate.isObject(body) &&
  (Predicate.isNotNullish(body["error"]) ||
    body["type"] === "error" ||
    body["object"] === "error" ||
    asStatus(body["code"] ?? body["status"]) !== undefined)

const link = /https?:\/\/\S+/g

export const fromJson = (body: unknown): FailureBody => {
  const failure = describing(body)
  if (!Predicate.isObject(failure)) {
    const message = asText(failure)
    return { message, codes: [], status: undefined, signals: message.toLowerCase().replace(link, "") }
  }
  const message = asText(failure["message"]) || asText(failure["detail"])
  const codes = [failure["code"], failure["status"], failure["type"]].filter((value) => typeof value === "string")
  const upstream = Predicate.isObject(failure["metadata"]) ? asText(failure["metadata"]["raw"]) : ""
  return {
    message,
    codes,
    status: asStatus(failure["code"]) ?? asStatus(failure["status"]),
    signals: [message, upstream, ...codes].join(" ").toLowerCase().replace(link, "")
  }
}

/** The error in a body under a status that is none. A page, or JSON that is no error, says nothing, whatever its words are. */
export const fromJsonError = (text: string): FailureBody => {
  const body = Option.getOrUndefined(parseJson(text))
  return fromJson(isError(Array.isArray(body) ? body[0] : body) ? body : undefined)
}

/** Shows nothing of a body that is not JSON: mostly it is the page of a proxy. */
export const fromText = (text: string): FailureBody =>
  Option.match(parseJson(text), {
    onNone: () => ({ ...fromJson(text), message: "" }),
    onSome: fromJson
  })

const keys = /\b(?:sk|rk|pk|gsk|xai)[-_][\w*.-]{8,}|\bAIza[\w-]{20,}/g
const maxMessage = 500

/** Fit to be shown: short, and without what a server repeats of the request's keys, whole or masked by itself. */
export const cleaned = (secrets: ReadonlyArray<string>) => {
  const long = secrets.filter((secret) => secret.length >= 4)
  return (body: FailureBody): FailureBody => ({
    ...body,
    message: long
      .reduce((message, secret) => message.replaceAll(secret, "[redacted]"), body.message)
      .replace(keys, "[redacted]")
      .slice(0, maxMessage)
  })
}
