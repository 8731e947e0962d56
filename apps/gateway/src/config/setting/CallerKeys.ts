import { CallerName } from "@bowline/domain/caller/CallerName"
import { Effect, Redacted, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { list, matching, split } from "./SettingText.ts"

/** A bearer key and its caller. A caller may have several keys. */
const CallerKey = Schema.Struct({ name: CallerName, key: Schema.Redacted(Schema.String) })
export type CallerKey = typeof CallerKey.Type

const wrong = (message: string) => Effect.fail(new SchemaIssue.InvalidValue({ message }))

/** A shorter key is a slip, or guessed at once. */
const minKey = 3

/** Only the first `=` of an entry ends the name. */
const parse = Effect.fnUntraced(function* (text: string) {
  const keys = new Map<string, typeof CallerKey.Encoded>()
  for (const [index, entry] of split(text).entries()) {
    const [, name, key] = /^([\w.@-]{1,64})=([\x21-\x7e]+)$/.exec(entry) ?? []
    if (name === undefined || key === undefined) {
      return yield* wrong(`Expected name=key,name2=key2 of printable ASCII; entry ${index + 1} is not`)
    }
    if (key.length < minKey)
      return yield* wrong(`Expected keys of ${minKey} characters at least; that of entry ${index + 1} is shorter`)
    if (keys.has(key)) return yield* wrong(`Expected each key once; entry ${index + 1} repeats one`)
    keys.set(key, { name, key: Redacted.make(key) })
  }
  return Array.from(keys.values())
})

/** `name=key,name2=key2`. */
export const callerKeys = Schema.String.pipe(
  Schema.decodeTo(
    Schema.Array(CallerKey),
    SchemaTransformation.transformEffect({
      decode: (text): Effect.Effect<ReadonlyArray<typeof CallerKey.Encoded>, SchemaIssue.Issue> => parse(text),
      encode: (keys) => Effect.succeed(keys.map(({ name, key }) => `${name}=${Redacted.value(key)}`).join(","))
    })
  )
)

/** `name,name2`. */
export const callerNames = list(matching(/^[\w.@-]{1,64}$/, ""), "Expected a comma list of names of callers")
