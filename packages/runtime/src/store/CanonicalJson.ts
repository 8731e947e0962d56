/**
 * The canonical text of a JSON value (RFC 8785): no whitespace, the keys of an object in the order of their UTF-16 code units,
 * numbers and strings as ECMAScript writes them. Two texts of equal values have the same canonical text.
 */
export const canonicalJson = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  const fields = new Map<string, unknown>(Object.entries(value))
  const members = Array.from(fields.keys())
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(fields.get(key))}`)
  return `{${members.join(",")}}`
}
