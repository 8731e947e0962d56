import { Option, Predicate, Schema } from "effect"

/** What a server says about a failure, in any dialect. `signals` is the whole text in lower case, without links. */
export interface FailureBody {
  readonly message: string
  /** Its codes, its status and its type, where they are texts. */
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

/** The failure in a body that was parsed as JSON, in any dialect: an `error` object, a list of them, a plain object or a text. */
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

/** The JSON error in the body of a response that is not a failure by its status. The words of any other body are not read. */
export const fromJsonError = (text: string): FailureBody => {
  const body = Option.getOrUndefined(parseJson(text))
  return fromJson(isError(Array.isArray(body) ? body[0] : body) ? body : undefined)
}

/** The failure in a body. If it is not JSON, mostly a proxy's page, its words are read and none of them is shown. */
export const fromText = (text: string): FailureBody =>
  Option.match(parseJson(text), {
    onNone: () => ({ ...fromJson(text), message: "" }),
    onSome: fromJson
  })

const keys = /\b(?:sk|rk|pk|gsk|xai)[-_][\w*.-]{8,}|\bAIza[\w-]{20,}/g
const maxMessage = 500

/** Makes a failure fit to be shown: short, and without keys of the request that the server repeats, also masked ones. */
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
