/** Where something stands in a file: `providers[0].models["gpt-5.1"].price`. */
export const formatPath = (path: ReadonlyArray<PropertyKey>): string =>
  path
    .map((key, index) => {
      if (typeof key === "number") return `[${key}]`
      const name = String(key)
      if (!/^[\w-]+$/.test(name)) return `[${JSON.stringify(name)}]`
      return index === 0 ? name : `.${name}`
    })
    .join("")

/** What is wrong, and where. */
export interface Problem {
  readonly path: ReadonlyArray<PropertyKey>
  readonly expected: string
}
