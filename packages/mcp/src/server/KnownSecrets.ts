import type { McpCommand } from "@bowline/domain/mcp/McpServer"
import { Redacted } from "effect"

/** Whether something of this name is a secret: a variable, a flag, a header, a parameter. */
const isSecret = (name: string): boolean =>
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

const ofVariable = (name: string, value: string): ReadonlyArray<string> => (isSecret(name) ? [value] : ofUrl(value))

/** `--api-key=…`, `API_KEY=…`, `Authorization: …`, and what follows `--api-key`. */
const ofArgument = (argument: string, before: string): ReadonlyArray<string> => {
  const [, name, value] = /^([\w-]+)(?:=|: *(?!\/\/))(.*)$/s.exec(argument) ?? []
  if (name !== undefined && value !== undefined) return ofVariable(name, value)
  return /^--?[\w-]+$/.test(before) && !argument.startsWith("-") ? ofVariable(before, argument) : ofUrl(argument)
}

/** What a command gets of secrets, by the names of its variables and arguments. */
export const ofCommand = ({ args = [], env = {} }: McpCommand): ReadonlyArray<string> => {
  const words = args.map((argument) => Redacted.value(argument))
  return [
    ...Object.entries(env).flatMap(([name, value]) => ofVariable(name, Redacted.value(value))),
    ...words.flatMap((word, index) => ofArgument(word, words[index - 1] ?? ""))
  ]
}
