import type { Problem } from "../setting/ConfigPath.ts"

const reference = /\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g

/**
 * Puts the variables in that the strings of a document name, as `$NAME` or `${NAME}`; `$$` is a dollar. One that is not set,
 * or is empty, is a problem.
 */
export const substitute = (
  document: unknown,
  variable: (name: string) => string | undefined
): { readonly document: unknown; readonly problems: ReadonlyArray<Problem> } => {
  const problems: Array<Problem> = []
  const inText = (text: string, path: Problem["path"]) =>
    text.replace(reference, (_, braced: string | undefined, plain: string | undefined) => {
      const name = braced ?? plain
      if (name === undefined) return "$"
      const value = variable(name)
      if (value === undefined || value === "") problems.push({ path, expected: `The variable ${name} is not set` })
      return value ?? ""
    })
  const walk = (value: unknown, path: Problem["path"]): unknown => {
    if (typeof value === "string") return inText(value, path)
    if (Array.isArray(value)) return value.map((element: unknown, index) => walk(element, [...path, index]))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner, [...path, key])]))
  }
  return { document: walk(document, []), problems }
}
