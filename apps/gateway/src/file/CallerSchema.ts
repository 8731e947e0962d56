import { Schema } from "effect"
import { matching } from "../setting/SettingText.ts"

const expectedGlob =
  "Expected a glob such as weather_* or {clock,weather}_*, without a ! in front: deny names what is forbidden"

/** Sets and alternatives, without others in them. */
const groups = /\[[^[\]/]+\]|\{[^{}]*\}/g

/** A glob that is malformed would match only itself: a `deny` of it would deny nothing. */
const isGlob = (text: string): boolean =>
  /^[\x21-\x7e]+$/.test(text) && !text.startsWith("!") && !/[[\]{}\\]/.test(text.replaceAll(groups, ""))

const Globs = Schema.Array(Schema.String.check(Schema.makeFilter((text) => isGlob(text) || expectedGlob))).check(
  Schema.isMinLength(1, { message: "Expected at least one glob" })
)

/** Which names a caller may use. `deny` wins. */
const GlobRules = Schema.Struct({ allow: Schema.optionalKey(Globs), deny: Schema.optionalKey(Globs) })
  .annotate({ message: "Expected an object of allow and deny, which are lists of globs" })
  .check(
    Schema.makeFilter(
      ({ allow, deny }) => allow !== undefined || deny !== undefined || "Expected allow, deny, or both of them"
    )
  )
export type GlobRules = typeof GlobRules.Type

/** What a caller may use. A key that is missing restricts nothing. */
const FilePermission = Schema.Struct({
  tools: Schema.optionalKey(GlobRules),
  hosts: Schema.optionalKey(GlobRules),
  models: Schema.optionalKey(GlobRules),
  recipes: Schema.optionalKey(GlobRules)
})
export type FilePermission = typeof FilePermission.Type

const perDay = Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000_000 })))

/** What a caller may use up on one day. */
const FileBudget = Schema.Struct({ tokens_per_day: perDay, tool_calls_per_day: perDay }).check(
  Schema.makeFilter(
    ({ tokens_per_day, tool_calls_per_day }) =>
      tokens_per_day !== undefined ||
      tool_calls_per_day !== undefined ||
      "Expected tokens_per_day, tool_calls_per_day, or both of them"
  )
)

/** The name of a caller, or `*` for every caller that has no entry of its own. */
const Who = matching(/^(\*|[\w.@-]{1,64})$/, "Expected the name of a caller, or *")

const byCaller = <S extends Schema.Codec<unknown>>(entry: S) =>
  Schema.Record(Who, entry).check(
    Schema.makeFilter((entries) => Object.keys(entries).length > 0 || "Expected at least one caller")
  )

export const Permissions = byCaller(FilePermission)
export const Budgets = byCaller(FileBudget)
