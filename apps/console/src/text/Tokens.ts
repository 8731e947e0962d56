import { Lexer, type Token } from "marked"

/** A text longer than this is shown as it is: nobody reads it as prose, and a lexer's time grows with it. */
const longest = 100_000

/** A line longer than this is data, and patterns that look for an end of emphasis search all of it. */
const longestLine = 5_000

/** Twenty quotes or lists inside each other: a lexer calls itself for each. */
const tooDeep = /^(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){20}/

const isData = (line: string): boolean => line.length > longestLine || tooDeep.test(line)

/** The blocks of a Markdown text. */
export interface Blocks {
  readonly text: string
  readonly tokens: ReadonlyArray<Token>
}

export const none: Blocks = { text: "", tokens: [] }

/** A paragraph that is shown as it is. */
const plain = (raw: string): Token => ({
  type: "paragraph",
  raw,
  text: raw,
  tokens: [{ type: "escape", raw, text: raw }]
})

const prose = (text: string): Array<Token> =>
  text.length > longest ? [plain(text)] : new Lexer({ gfm: true }).lex(text)

const lex = (text: string): Array<Token> => {
  const lines = text.split(/(?<=\n)/)
  if (!lines.some(isData)) return prose(text)
  const tokens: Array<Token> = []
  let rest = ""
  for (const line of lines) {
    if (!isData(line)) rest += line
    else {
      tokens.push(...prose(rest), plain(line))
      rest = ""
    }
  }
  return [...tokens, ...prose(rest)]
}

/**
 * The blocks of a text that was `before` and has grown: all but its last two blocks are kept, as the same objects, and only the rest
 * is read again. The last ones may change with what follows: a line of text may turn out to be the head of a table.
 */
export const extend = (before: Blocks, text: string): Blocks => {
  if (text === before.text) return before
  const kept = text.startsWith(before.text) ? before.tokens.slice(0, -2) : []
  const length = kept.reduce((sum, { raw }) => sum + raw.length, 0)
  const isSame = kept.length > 0 && text.startsWith(kept.map(({ raw }) => raw).join(""))
  // A part of a string keeps all of it in memory, and tokens are such parts: those that stay must not keep every state of the text.
  return isSame ? { text, tokens: [...kept, ...lex(structuredClone(text.slice(length)))] } : { text, tokens: lex(text) }
}
