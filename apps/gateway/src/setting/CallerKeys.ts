import { CallerName } from "@bowline/domain/caller/CallerName"
import { Redacted, Result } from "effect"
import type { Parse } from "./Setting.ts"

/** A bearer key, and who holds it. A caller may have several keys. */
export interface CallerKey {
  readonly name: CallerName
  readonly key: Redacted.Redacted
}

/** `name=key,name2=key2`. Only the first `=` of an entry ends the name. */
export const parseCallerKeys: Parse<ReadonlyArray<CallerKey>> = (text) => {
  const keys: Array<CallerKey> = []
  const seen = new Set<string>()
  for (const [index, entry] of text.split(",").entries()) {
    const [, name, key] = /^\s*([\w.@-]{1,64})=([\x21-\x7e]+)\s*$/.exec(entry) ?? []
    if (name === undefined || key === undefined) {
      return Result.fail(`Expected name=key,name2=key2 of printable ASCII; entry ${index + 1} is not`)
    }
    if (seen.has(key)) return Result.fail(`Expected each key once; entry ${index + 1} repeats one`)
    seen.add(key)
    keys.push({ name: CallerName.make(name), key: Redacted.make(key) })
  }
  return Result.succeed(keys)
}

/** `name,name2`: names of callers. */
export const parseCallerNames: Parse<ReadonlySet<string>> = (text) => {
  const names = text.split(",").map((name) => name.trim())
  return names.every((name) => /^[\w.@-]{1,64}$/.test(name))
    ? Result.succeed(new Set(names))
    : Result.fail("Expected a comma list of names of callers")
}
