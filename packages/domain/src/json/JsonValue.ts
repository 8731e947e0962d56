/** The deepest nesting of a value. Nobody nests deeper on purpose, and a much deeper value cannot be written as JSON again. */
const maxDepth = 64

/** Why a parsed value cannot be kept as JSON: it is nested too deep, or holds a number that JSON cannot write. Undefined if it can. */
export const problem = (value: unknown): string | undefined => {
  let level: ReadonlyArray<unknown> = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return `Expected at most ${maxDepth} levels of nesting`
    if (level.some((item) => typeof item === "number" && !Number.isFinite(item))) return "Expected finite numbers"
    level = level.flatMap((item): ReadonlyArray<unknown> =>
      typeof item === "object" && item !== null ? Object.values(item) : []
    )
  }
  return undefined
}
