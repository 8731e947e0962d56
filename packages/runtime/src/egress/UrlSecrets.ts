/** Whether something of this name is a secret: a variable, a flag, a header, a parameter. */
export const isSecret = (name: string): boolean =>
  /key|token|secret|passw|pwd|credential|auth|dsn|(^|[_-])pat($|[_-])/i.test(name)

/** A word of a URL as it is meant. */
const decoded = (word: string): string => new URLSearchParams(`word=${word.replaceAll("+", "%2B")}`).get("word") ?? ""

/** The password of a URL, and the values of its parameters that are secrets: as they are written, and as they are meant. */
export const ofUrl = (text: string): ReadonlyArray<string> => {
  if (!URL.canParse(text)) return []
  const { password, searchParams } = new URL(text)
  const values = Array.from(searchParams).flatMap(([name, value]) => (isSecret(name) ? [value] : []))
  return [password, decoded(password), ...values.flatMap((value) => [encodeURIComponent(value), value])]
}
