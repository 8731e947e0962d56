import type { McpCommand } from "@bowline/domain/unstable/mcp/McpServer"
import { isSecret, ofUrl } from "@bowline/runtime/unstable/egress/UrlSecrets"
import { Redacted } from "effect"

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
