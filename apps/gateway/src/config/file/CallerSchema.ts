import { Schema } from "effect"
import { isGlob, matching } from "../setting/SettingText.ts"

const expectedGlob =
  "Expected a glob such as weather_* or {clock,weather}_*, without a ! in front: deny names what is forbidden"

const expectedHost =
  "Expected a glob of hosts such as *.agents.example, 10.0.* or fd00:*, without scheme, port, path and brackets"

/** Anything else in it would be a part of a URL that is no host: the glob would match nothing. */
const isHostGlob = (text: string): boolean => isGlob(text) && !/\/|^[^:]*:\d*$|\[[^\]]*:/.test(text)

/** Which names a caller may use. `deny` wins. */
const rulesOf = (isElement: (text: string) => boolean, expected: string) => {
  const elements = Schema.Array(Schema.String.check(Schema.makeFilter((text) => isElement(text) || expected)))
  const Globs = Schema.optionalKey(elements.check(Schema.isMinLength(1, { message: "Expected at least one glob" })))
  return Schema.Struct({ allow: Globs, deny: Globs })
    .annotate({ message: "Expected an object of allow and deny, which are lists of globs" })
    .check(
      Schema.makeFilter(
        ({ allow, deny }) => allow !== undefined || deny !== undefined || "Expected allow, deny, or both of them"
      )
    )
}

const GlobRules = rulesOf(isGlob, expectedGlob)
export type GlobRules = typeof GlobRules.Type

/** What the plans of a preset may use. A key that is missing restricts nothing. */
export const PresetPermission = Schema.Struct({
  tools: Schema.optionalKey(GlobRules),
  hosts: Schema.optionalKey(rulesOf(isHostGlob, expectedHost)),
  models: Schema.optionalKey(GlobRules),
  recipes: Schema.optionalKey(GlobRules)
})

/** What a caller may use. */
const FilePermission = Schema.Struct({ ...PresetPermission.fields, presets: Schema.optionalKey(GlobRules) })
export type FilePermission = typeof FilePermission.Type

const perDay = Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000_000 })))

const dollars = Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 })))

const limits = {
  tokens_per_day: perDay,
  tool_calls_per_day: perDay,
  cost_usd_per_day: dollars,
  cost_usd_per_month: dollars
}

/** What a caller may use up on one day, and in one month. */
const FileBudget = Schema.Struct(limits).check(
  Schema.makeFilter(
    (given) => Object.keys(given).length > 0 || `Expected one of ${Object.keys(limits).join(", ")}, or several of them`
  )
)

/** The name of a caller, or `*` for every caller that has no entry of its own; behind a colon, what `key`, `group` or the name of an identity provider stands for. */
const Who = matching(
  /^(\*|[\w.@-]{1,64}|[A-Za-z0-9-]{1,32}:.{1,256})$/u,
  "Expected the name of a caller, <identity provider>:<caller>, key:<name>, group:<name>, or *"
)

const byCaller = <S extends Schema.Codec<unknown>>(entry: S) =>
  Schema.Record(Who, entry).check(
    Schema.makeFilter((entries) => Object.keys(entries).length > 0 || "Expected at least one caller")
  )

export const Permissions = byCaller(FilePermission)
export const Budgets = byCaller(FileBudget)
