/** The deepest nesting that a text may have. Nobody nests deeper on purpose, and a much deeper value cannot be written as JSON again. */
const maxDepth = 64
/** The most values that a text may have, each value in an object or array counted. To parse more at once blocks the event loop too long. */
const maxValues = 50_000

const quote = '"'.charCodeAt(0)
const backslash = "\\".charCodeAt(0)
const comma = ",".charCodeAt(0)
const openings: ReadonlySet<number> = new Set(["{", "["].map((text) => text.charCodeAt(0)))
const closings: ReadonlySet<number> = new Set(["}", "]"].map((text) => text.charCodeAt(0)))

/** Where the string ends that begins at `start`. */
const endOfString = (text: string, start: number): number => {
  for (let index = start + 1; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) return index
    if (code === backslash) index++
  }
  return text.length
}

/** How many values a text has, and how deep it is nested, counted before it is parsed. It need not be JSON. */
const measure = (text: string): { readonly values: number; readonly depth: number } => {
  let values = 1
  let open = 0
  let depth = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) index = endOfString(text, index)
    else if (code === comma) values++
    else if (openings.has(code)) {
      values++
      depth = Math.max(depth, ++open)
    } else if (closings.has(code)) open--
  }
  return { values, depth }
}

/** Says why a text is not to be parsed as JSON, if so: it has more than 50,000 values or more than 64 levels of nesting. `values` is their number, an empty object or array counted twice. */
export const check = (text: string): { readonly values: number; readonly problem: string | undefined } => {
  const { values, depth } = measure(text)
  if (depth > maxDepth) return { values, problem: `Expected at most ${maxDepth} levels of nesting` }
  if (values > maxValues) return { values, problem: `Expected at most ${maxValues} values, got ${values}` }
  return { values, problem: undefined }
}
