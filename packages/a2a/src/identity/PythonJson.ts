/** An object of strings and whole numbers. */
export type Fields = Readonly<Record<string, string | number>>

// JSON.stringify escapes the rest in the same way: control characters, quotes, backslashes, lone surrogates.
const text = (value: string): string =>
  JSON.stringify(value).replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

const byCodePoint = (left: string, right: string): number => Buffer.compare(Buffer.from(left), Buffer.from(right))

/**
 * Writes what Python's `json.dumps(fields, sort_keys=True)` does, character by character: `", "` and `": "` between, all
 * that is not printable ASCII as `\uXXXX`, in surrogate pairs where one is not enough. Bindu signs the bytes of it.
 */
export const stringify = (fields: Fields): string =>
  `{${Object.entries(fields)
    .toSorted(([left], [right]) => byCodePoint(left, right))
    .map(([key, value]) => `${text(key)}: ${typeof value === "string" ? text(value) : value}`)
    .join(", ")}}`
