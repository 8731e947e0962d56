import { Effect, Schema, type Struct } from "effect"

/** What is known of a setting, beside its type. */
interface Description {
  /** The variable that sets it. */
  readonly variable?: string
  /** The flag of `bowline serve` that sets it, without its dashes. */
  readonly flag?: string
  /** Section and key in the file. */
  readonly path?: readonly [section: string, key: string]
  /** Whether its value must not be shown. */
  readonly secret?: true
  /** Whether it is a comma list. The file may write it as a list. */
  readonly list?: true
  /** The description in the reference, in Markdown. */
  readonly doc: string
  /** The default, as an operator would write it. */
  readonly default?: string
  /** The default in words, if there is no fixed one. */
  readonly unset?: string
}

/** One thing that an operator can set: where, and how its text is read. */
export interface Setting<
  S extends Schema.ConstraintDecoder<unknown> = Schema.ConstraintDecoder<unknown>
> extends Description {
  readonly schema: S
}

/** A setting with a default. */
export const setting = <A>(
  schema: Schema.Codec<A, string>,
  description: Description & { readonly default: string }
): Setting<Schema.withDecodingDefaultKey<Schema.Codec<A, string>>> => ({
  ...description,
  schema: Schema.withDecodingDefaultKey<Schema.Codec<A, string>>(Effect.succeed(description.default))(schema)
})

/** A setting without a default. */
export const optional = <A>(
  schema: Schema.Codec<A, string>,
  description: Description & { readonly unset: string }
): Setting<Schema.optionalKey<Schema.Codec<A, string>>> => ({ ...description, schema: Schema.optionalKey(schema) })

/** A comma list, empty by default. */
export const listSetting = <A>(
  schema: Schema.Codec<ReadonlyArray<A>, string>,
  description: Omit<Description, "list">
): Setting<Schema.withDecodingDefaultTypeKey<Schema.Codec<ReadonlyArray<A>, string>>> => ({
  unset: "none",
  ...description,
  list: true,
  schema: Schema.withDecodingDefaultTypeKey<Schema.Codec<ReadonlyArray<A>, string>>(Effect.succeed([]))(schema)
})

/** Maps a setting to its schema. */
export interface SchemaOf extends Struct.Lambda {
  <S extends Schema.ConstraintDecoder<unknown>>(setting: Setting<S>): S
  readonly "~lambda.out": this["~lambda.in"] extends Setting<infer S> ? S : never
}
