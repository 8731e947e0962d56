import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import { Record, Result, type Schema } from "effect"
import { addRanges, without, type Range } from "./Range.ts"
import { RedactedSequence } from "./RedactedSequence.ts"
import { SecretSearch } from "./SecretSearch.ts"

/** A shorter secret is found in innocent words. */
const shortest = 4

const isList = (json: Schema.JsonArray | Schema.JsonObject): json is Schema.JsonArray => Array.isArray(json)

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

/** Takes the secrets of one call out of what a peer says: a peer may repeat the token that it was asked with. */
export class Redaction {
  /** For a text as it is, and for JSON that is written as text. */
  readonly #searches = new Map<string, readonly [SecretSearch, SecretSearch]>()

  /** Adds the secret of an `Authorization` header. A call has more than one where its token is renewed. */
  addAuthorization(header: string | undefined): this {
    const secret = header?.replace(/^Bearer /, "") ?? ""
    if (secret.length >= shortest && !this.#searches.has(secret)) {
      this.#searches.set(secret, [new SecretSearch(secret, false), new SecretSearch(secret, true)])
    }
    return this
  }

  /**
   * Redacts the body of an answer, or the data of an event. In JSON it redacts strings only: the names of members are the
   * protocol's.
   */
  body(text: string): string {
    const ranges = this.#find(text)
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
    return without(text, 0, this.#find(text))
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

  /** Redacts a file in base64. */
  base64(text: string): string {
    return this.#searches.size === 0 ? text : this.#encoded(this.text(text))
  }

  /** Redacts texts that follow one another, searched as one text. Secrets that are added later are searched from then on. */
  sequence(): RedactedSequence {
    return new RedactedSequence(() => this.#searches.keys())
  }

  #encoded(text: string): string {
    if (!isBase64(text)) return text
    const bytes = Buffer.from(text, "base64").toString("latin1")
    const redacted = this.text(bytes)
    return redacted === bytes ? text : Buffer.from(redacted, "latin1").toString("base64")
  }

  #find(text: string): ReadonlyArray<Range> {
    const isPlain = !text.includes("\\")
    const found = [...this.#searches.values()].flatMap(([plain, unescaping]) =>
      isPlain ? plain.find(text) : [...plain.find(text), ...unescaping.find(text)]
    )
    return addRanges([], found)
  }
}
