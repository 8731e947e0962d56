import { Effect, Schema, type Struct } from "effect"

/** What is known of a setting beside its values. */
interface Description {
  /** The variable that sets it. Without one only the file does. */
  readonly variable?: string
  /** The flag of `bowline serve` that sets it, without its dashes. */
  readonly flag?: string
  /** Section and key in the file. Without it the file does not set it, or says it elsewhere. */
  readonly path?: readonly [section: string, key: string]
  /** Whether nobody may see its value. */
  readonly secret?: true
  /** Whether it takes text with commas, for which the file may write a list. */
  readonly list?: true
  /** What it is, as the reference says it. */
  readonly doc: string
  /** What holds where nobody sets it, as it would be written. */
  readonly default?: string
  /** The same in words, where that says more. */
  readonly unset?: string
}

/** One thing that an operator sets: everywhere it can be set, and how its text is read. */
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

/** A setting that nobody has to set. */
export const optional = <A>(
  schema: Schema.Codec<A, string>,
  description: Description & { readonly unset: string }
): Setting<Schema.optionalKey<Schema.Codec<A, string>>> => ({ ...description, schema: Schema.optionalKey(schema) })

/** A list that is empty where nobody sets it. */
export const listSetting = <A>(
  schema: Schema.Codec<ReadonlyArray<A>, string>,
  description: Omit<Description, "list">
): Setting<Schema.withDecodingDefaultTypeKey<Schema.Codec<ReadonlyArray<A>, string>>> => ({
  unset: "none",
  ...description,
  list: true,
  schema: Schema.withDecodingDefaultTypeKey<Schema.Codec<ReadonlyArray<A>, string>>(Effect.succeed([]))(schema)
})

/** From a setting to its schema. */
export interface SchemaOf extends Struct.Lambda {
  <S extends Schema.ConstraintDecoder<unknown>>(setting: Setting<S>): S
  readonly "~lambda.out": this["~lambda.in"] extends Setting<infer S> ? S : never
}
