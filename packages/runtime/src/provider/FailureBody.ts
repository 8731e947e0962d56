import { Option, Predicate, Schema } from "effect"

/** What a server says about a failure, in any dialect. */
export interface FailureBody {
  readonly message: string
  /** Its codes, its status and its type, where they are texts, in lower case. Those of a server behind the server are among them. */
  readonly codes: ReadonlyArray<string>
  /** The field of the request that it names. */
  readonly field: string | undefined
  /** It names why the content of the request was flagged. */
  readonly isFlagged: boolean
  /** The HTTP status that it names. */
  readonly status: number | undefined
  /** The whole text in lower case, without links. */
  readonly signals: string
  /** The same without codes, quotations, and names such as `tools.0.name`: they may be the request's own texts. */
  readonly words: string
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
/** From the first mark to the last one: a text that is quoted may contain marks, too. */
const quotations = [/".*"/gs, /`.*`/gs, /“.*”/gs, /(?<!\w)'.*'(?!\w)/gs]
const name = /\w[_./:[\]-]+\w/
/** How much of a message is searched for quotations: the time grows with the square. */
const maxWords = 2_000

const withoutNames = (text: string): string =>
  quotations
    .reduce((rest, quotation) => rest.replace(quotation, "…"), text.slice(0, maxWords))
    .replace(/\S+/g, (word) => (name.test(word) ? "…" : word))

const none: FailureBody = {
  message: "",
  codes: [],
  field: undefined,
  isFlagged: false,
  status: undefined,
  signals: "",
  words: ""
}

const fromMessage = (message: string): FailureBody => {
  const signals = message.toLowerCase().replace(link, "")
  return { ...none, message, signals, words: withoutNames(signals) }
}

/** What the server behind the server has said, as OpenRouter repeats it. */
const upstreamOf = (metadata: unknown): FailureBody =>
  Predicate.isObject(metadata) && typeof metadata["raw"] === "string" ? fromText(metadata["raw"]) : none

const isFlagged = (metadata: unknown): boolean =>
  Predicate.isObject(metadata) &&
  (Array.isArray(metadata["reasons"]) || Predicate.isNotNullish(metadata["flagged_input"]))

/** Google's reasons. */
const reasonsOf = (details: unknown): ReadonlyArray<unknown> =>
  Array.isArray(details) ? details.map((detail) => Predicate.isObject(detail) && detail["reason"]) : []

/** The failure in a body that was parsed as JSON, in any dialect: an `error` object, a list of them, a plain object or a text. */
export const fromJson = (body: unknown): FailureBody => {
  const failure = describing(body)
  if (!Predicate.isObject(failure)) return fromMessage(asText(failure))
  const { code, details, metadata, param, status, type } = failure
  const upstream = upstreamOf(metadata)
  const own = fromMessage(asText(failure["message"]) || asText(failure["detail"]))
  const codes = [code, status, type, ...reasonsOf(details)].flatMap((value) =>
    typeof value === "string" ? [value.toLowerCase()] : []
  )
  return {
    message: own.message,
    codes: [...codes, ...upstream.codes],
    field: asText(param) || upstream.field,
    isFlagged: isFlagged(metadata) || upstream.isFlagged,
    status: asStatus(code) ?? asStatus(status),
    signals: [own.signals, upstream.signals, ...codes].join(" "),
    words: `${own.words} ${upstream.words}`.trim()
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
