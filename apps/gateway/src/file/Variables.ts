import type { Issue } from "../setting/Problem.ts"
import type { Texts } from "../setting/ReadSettings.ts"

const reference = /\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g

/** Replaces `$NAME` and `${NAME}` in the strings of a document by the variable, which has to be set; `$$` is a dollar. */
export const substitute = (
  document: unknown,
  environment: Texts
): { readonly document: unknown; readonly issues: ReadonlyArray<Issue> } => {
  const issues: Array<Issue> = []
  const inText = (text: string, path: Issue["path"]) =>
    text.replace(reference, (_, braced: string | undefined, plain: string | undefined) => {
      const name = braced ?? plain
      if (name === undefined) return "$"
      const value = environment[name]
      if (value === undefined || value === "") issues.push({ path, expected: `The variable ${name} is not set` })
      return value ?? ""
    })
  const walk = (value: unknown, path: Issue["path"]): unknown => {
    if (typeof value === "string") return inText(value, path)
    if (Array.isArray(value)) return value.map((element: unknown, index) => walk(element, [...path, index]))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner, [...path, key])]))
  }
  return { document: walk(document, []), issues }
}
