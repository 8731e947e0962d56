import * as JsonValue from "@bowline/domain/json/JsonValue"
import { Array, Record, Result, type Schema } from "effect"
import { SecretSearch, type Range } from "./SecretSearch.ts"

const mark = "[redacted]"

/** A shorter secret, or a shorter beginning of one, is found in innocent words. */
const shortest = 4

const isList = (json: Schema.JsonArray | Schema.JsonObject): json is Schema.JsonArray => globalThis.Array.isArray(json)

/** JSON with other strings, and other names of members. At most 64 levels deep. */
const mapped = (
  json: Schema.Json,
  string: (text: string) => string,
  name: (text: string) => string = string
): Schema.Json => {
  if (typeof json === "string") return string(json)
  if (typeof json !== "object" || json === null) return json
  return isList(json)
    ? json.map((item) => mapped(item, string, name))
    : Record.mapEntries(json, (item, key) => [name(key), mapped(item, string, name)])
}

/** `JSON.parse` gives nothing but JSON; some of it is nested too deeply, or cannot be written again. */
const isJson = (parsed: unknown): parsed is Schema.Json => JsonValue.problem(parsed) === undefined

const isBase64 = (text: string): boolean => text.length % 4 === 0 && /^[A-Za-z0-9+/]{6,}={0,2}$/.test(text)

/** The text without the ranges, each of which leaves a mark at its end. */
const without = (text: string, offset: number, ranges: ReadonlyArray<Range>): string => {
  let kept = ""
  let at = offset
  const end = offset + text.length
  for (const range of ranges) {
    if (range.end <= offset || range.start >= end) continue
    kept += text.slice(at - offset, Math.max(range.start - offset, 0))
    if (range.end <= end) kept += mark
    at = Math.min(range.end, end)
  }
  return kept + text.slice(at - offset)
}

const merged = (ranges: ReadonlyArray<Range>): ReadonlyArray<Range> => {
  const all: Array<Range> = []
  for (const range of ranges.toSorted((left, right) => left.start - right.start)) {
    const last = all.at(-1)
    if (last === undefined || range.start >= last.end) all.push(range)
    else if (range.end > last.end) all[all.length - 1] = { start: last.start, end: range.end }
  }
  return all
}

/** Takes the secrets of one call out of what a peer says: a peer may repeat the token that it was asked with. */
export class Redaction {
  readonly #searches = new Map<string, SecretSearch>()

  /** Adds the secret of an `Authorization` header. A call has more than one where its token is renewed. */
  addAuthorization(header: string | undefined): this {
    const secret = header?.replace(/^Bearer /, "") ?? ""
    if (secret.length >= shortest && !this.#searches.has(secret)) this.#searches.set(secret, new SecretSearch(secret))
    return this
  }

  /**
   * Redacts the body of an answer, or the data of an event. In JSON it redacts strings only: the names of members are the
   * protocol's.
   */
  body(text: string): string {
    const { ranges } = this.#find(text)
    if (ranges.length === 0) return text
    const parsed = Result.try(() => JSON.parse(text) as unknown)
    return Result.isSuccess(parsed) && isJson(parsed.success)
      ? JSON.stringify(
          mapped(
            parsed.success,
            (one) => this.text(one),
            (name) => name
          )
        )
      : without(text, 0, ranges)
  }

  text(text: string): string {
    return without(text, 0, this.#find(text).ranges)
  }

  /** Redacts content of the peer: strings, names of members, and what is encoded in base64. */
  json(json: Schema.Json): Schema.Json {
    return this.#searches.size === 0
      ? json
      : mapped(
          json,
          (text) => this.#encoded(this.text(text)),
          (name) => this.text(name)
        )
  }

  /**
   * Redacts texts that follow one another, searched as one text. `open` is the index of the first text in which a secret may
   * begin that goes on behind the last text, else the number of texts.
   */
  sequence(texts: ReadonlyArray<string>): { readonly texts: ReadonlyArray<string>; readonly open: number } {
    const { open, ranges } = this.#find(texts.join(""))
    const ends = Array.scan(texts, 0, (end, text) => end + text.length)
    return {
      texts: texts.map((text, index) => without(text, ends[index] ?? 0, ranges)),
      open: texts.filter((_text, index) => (ends[index + 1] ?? 0) <= open).length
    }
  }

  #encoded(text: string): string {
    if (!isBase64(text)) return text
    const bytes = Buffer.from(text, "base64").toString("latin1")
    const redacted = this.text(bytes)
    return redacted === bytes ? text : Buffer.from(redacted, "latin1").toString("base64")
  }

  #find(text: string): { readonly ranges: ReadonlyArray<Range>; readonly open: number } {
    const views = text.includes("\\") ? [false, true] : [false]
    const found = [...this.#searches.values()].flatMap((search) => views.map((view) => search.find(text, view)))
    const open = found.flatMap(({ open }) => (open.length < shortest ? [] : [open.start]))
    return { ranges: merged(found.flatMap(({ ranges }) => ranges)), open: Math.min(text.length, ...open) }
  }
}
