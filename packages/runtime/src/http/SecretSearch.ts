/** Where a text shows a secret, from its first to behind its last UTF-16 unit. */
export interface Range {
  readonly start: number
  readonly end: number
}

export interface Found {
  readonly ranges: ReadonlyArray<Range>
  /** Where the text ends with the beginning of the secret: how many units of the secret, and where they start. */
  readonly open: { readonly length: number; readonly start: number }
}

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
 * Searches texts for one secret of visible ASCII. The time is linear: a caller chooses its token and a peer its answer, and
 * the search of a library takes more than a minute for the worst of both.
 */
export class SecretSearch {
  readonly #secret: string
  readonly #borders: Int32Array
  /** Where the last units that were read start: the secret's length of them, one behind the other in a circle. */
  readonly #starts: Int32Array

  /** Where a match can start: at the first unit of the secret, or at an escape. */
  readonly #beginning: RegExp

  constructor(secret: string) {
    this.#secret = secret
    this.#beginning = new RegExp(`[\\x5c\\x${secret.charCodeAt(0).toString(16)}]`, "g")
    this.#borders = bordersOf(secret)
    this.#starts = new Int32Array(secret.length)
  }

  /**
   * Newlines count as absent: parts of an answer are put together with them. With `unescapes` the escapes of JSON count as
   * what they stand for.
   */
  find(text: string, unescapes: boolean): Found {
    const length = this.#secret.length
    const ranges: Array<Range> = []
    let matched = 0
    let read = 0
    for (let at = 0; at < text.length;) {
      if (matched === 0) {
        this.#beginning.lastIndex = at
        if (!this.#beginning.test(text)) break
        at = this.#beginning.lastIndex - 1
      }
      const start = at
      let unit = text.charCodeAt(at++)
      if (unescapes && unit === backslash) {
        escape.lastIndex = cutEscape.lastIndex = start
        if (cutEscape.test(text)) break
        if (escape.test(text)) {
          at = escape.lastIndex
          unit = unescaped(text, start)
        }
      }
      if (unit === newline) continue
      this.#starts[read++ % length] = start
      while (matched > 0 && this.#secret.charCodeAt(matched) !== unit) matched = this.#borders[matched] ?? 0
      if (this.#secret.charCodeAt(matched) === unit) matched++
      if (matched === length) {
        ranges.push({ start: this.#starts[read % length] ?? 0, end: at })
        matched = 0
      }
    }
    return { ranges, open: { length: matched, start: this.#starts[(read - matched) % length] ?? 0 } }
  }
}
