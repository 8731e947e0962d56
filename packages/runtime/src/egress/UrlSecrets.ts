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

/** The URL with nothing in the parameters that are secrets. */
export const without = (text: string): string => {
  if (!URL.canParse(text)) return text
  const url = new URL(text)
  const named = Array.from(url.searchParams).filter(([name, value]) => isSecret(name) && value !== "")
  for (const [name] of named) url.searchParams.set(name, "")
  return named.length === 0 ? text : url.href
}

/** Whether a parameter of the URL that is a secret has nothing in it. */
export const lacks = (text: string): boolean =>
  URL.canParse(text) && Array.from(new URL(text).searchParams).some(([name, value]) => isSecret(name) && value === "")
