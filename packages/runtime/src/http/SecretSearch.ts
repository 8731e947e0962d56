import type { Range } from "./Range.ts"

const newline = 10
const backslash = 92
const escape = /\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])/y
/** The beginning of an escape that the text cuts off. */
const cutEscape = /\\(?:u[0-9a-fA-F]{0,3})?$/y

const unescaped = (text: string, start: number): number => {
  switch (text[start + 1]) {
    case "u":
      return Number.parseInt(text.slice(start + 2, start + 6), 16)
    case "n":
      return newline
    case '"':
    case "\\":
    case "/":
      return text.charCodeAt(start + 1)
    default:
      return 0
  }
}

/** How much of the secret still matches when the unit behind so many units of it does not: Knuth, Morris and Pratt. */
const bordersOf = (secret: string): Int32Array => {
  const borders = new Int32Array(secret.length + 1)
  let matched = 0
  for (let at = 1; at < secret.length; at++) {
    while (matched > 0 && secret[at] !== secret[matched]) matched = borders[matched] ?? 0
    if (secret[at] === secret[matched]) matched++
    borders[at + 1] = matched
  }
  return borders
}

/**
 * Searches for one secret of visible ASCII in texts that follow one another, as in one text. The time is linear: a caller
 * chooses its token and a peer its answer, and the search of a library takes more than a minute for the worst of both.
 */
export class SecretSearch {
  readonly #secret: string
  readonly #unescapes: boolean
  readonly #borders: Int32Array
  /** Where the last units that were read start: the secret's length of them, one behind the other in a circle. */
  readonly #starts: Int32Array
  /** Where a match can start: at the first unit of the secret, or at an escape. */
  readonly #beginning: RegExp
  #end: number
  #cut = ""
  #matched = 0
  #read = 0

  /** With `unescapes` the escapes of JSON count as what they stand for. `start` is the offset of the first text. */
  constructor(secret: string, unescapes: boolean, start = 0) {
    this.#secret = secret
    this.#unescapes = unescapes
    this.#beginning = new RegExp(`[\\x5c\\x${secret.charCodeAt(0).toString(16)}]`, "g")
    this.#borders = bordersOf(secret)
    this.#starts = new Int32Array(secret.length)
    this.#end = start
  }

  /** Where the last text ends with the beginning of the secret: how many units of the secret, and where they start. */
  get open(): { readonly length: number; readonly start: number } {
    return { length: this.#matched, start: this.#starts[(this.#read - this.#matched) % this.#secret.length] ?? 0 }
  }

  /** Searches one text alone. */
  find(text: string): ReadonlyArray<Range> {
    this.#end = this.#matched = this.#read = 0
    this.#cut = ""
    return this.next(text)
  }

  /**
   * Searches the next text, and gives what ends in it. Newlines count as absent: parts of an answer are put together with
   * them.
   */
  next(added: string): ReadonlyArray<Range> {
    const text = this.#cut + added
    const offset = this.#end - this.#cut.length
    this.#end += added.length
    this.#cut = ""
    const ranges: Array<Range> = []
    for (let at = 0; at < text.length;) {
      if (this.#matched === 0) {
        this.#beginning.lastIndex = at
        if (!this.#beginning.test(text)) break
        at = this.#beginning.lastIndex - 1
      }
      const start = at
      let unit = text.charCodeAt(at++)
      if (this.#unescapes && unit === backslash) {
        escape.lastIndex = cutEscape.lastIndex = start
        if (cutEscape.test(text)) {
          this.#cut = text.slice(start)
          break
        }
        if (escape.test(text)) {
          at = escape.lastIndex
          unit = unescaped(text, start)
        }
      }
      if (unit !== newline && this.#matches(unit, offset + start)) {
        ranges.push({ start: this.#starts[this.#read % this.#secret.length] ?? 0, end: offset + at })
      }
    }
    return ranges
  }

  /** Goes on by one unit. Says whether the secret is whole. */
  #matches(unit: number, start: number): boolean {
    this.#starts[this.#read++ % this.#secret.length] = start
    while (this.#matched > 0 && this.#secret.charCodeAt(this.#matched) !== unit) {
      this.#matched = this.#borders[this.#matched] ?? 0
    }
    if (this.#secret.charCodeAt(this.#matched) === unit) this.#matched++
    if (this.#matched < this.#secret.length) return false
    this.#matched = 0
    return true
  }
}
