import * as EgressRule from "@bowline/runtime/unstable/egress/EgressRule"
import { ByteSize, Duration, Effect, Option, Predicate, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { availableParallelism } from "node:os"

/** Reports what was expected, whatever is wrong with a text. It never repeats the text, which may be a secret. */
export const expecting =
  (expected: string) =>
  <S extends Schema.Constraint>(schema: S) =>
    Schema.catchDecoding<S>(() => Effect.fail(new SchemaIssue.InvalidValue({ message: expected })))(schema)

export const matching = (pattern: RegExp, expected: string) =>
  Schema.String.check(Schema.isPattern(pattern, { message: expected }))

/** One of some words, in upper or lower case. */
export const oneOf = <const Words extends ReadonlyArray<string>>(words: Words) =>
  Schema.String.pipe(
    Schema.decodeTo(Schema.String, SchemaTransformation.toLowerCase()),
    Schema.decodeTo(Schema.Literals(words)),
    expecting(`Expected one of ${words.join(", ")}`)
  )

export const trueOrFalse = Schema.Literals(["true", "false"]).pipe(
  Schema.decodeTo(
    Schema.Boolean,
    SchemaTransformation.transform({
      decode: (word) => word === "true",
      encode: (value) => (value ? "true" : "false")
    })
  ),
  expecting("Expected true or false")
)

export const integer = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\d{1,15}$/)).pipe(
    Schema.decodeTo(Schema.FiniteFromString.check(Schema.isBetween({ minimum, maximum }))),
    expecting(`Expected an integer between ${minimum} and ${maximum}`)
  )

const units: { readonly [unit: string]: string } = { ms: "millis", s: "seconds", m: "minutes", h: "hours", d: "days" }

/** Reads `500ms`, `90s`, `2m`, `1h`, `30d`: Effect spells the units out. */
const Spelled = Schema.String.check(Schema.isPattern(/^\d{1,12}(\.\d{1,3})? ?(ms|s|m|h|d)$/)).pipe(
  Schema.decodeTo(
    Schema.DurationFromString,
    SchemaTransformation.transform({
      decode: (text) => text.replace(/ ?([a-z]+)$/, (_, unit: string) => ` ${units[unit]}`),
      encode: (text) => text
    })
  )
)

export const duration = (minimum: "0s" | "1ms" | "100ms" | "1s" | "1m") => {
  const bounds = { minimum: Schema.decodeSync(Spelled)(minimum), maximum: Duration.days(36_500) }
  return Spelled.check(Schema.makeFilter(Duration.between(bounds))).pipe(
    expecting(`Expected a duration such as 500ms, 90s or 2m, from ${minimum} to 36500d`)
  )
}

/** The same, or `never`. */
export const durationOrNever = (minimum: Parameters<typeof duration>[0]) =>
  Schema.Union([
    Schema.Literal("never").pipe(
      Schema.decodeTo(
        Schema.Undefined,
        SchemaTransformation.transform({ decode: () => undefined, encode: () => "never" as const })
      )
    ),
    duration(minimum)
  ]).pipe(expecting(`Expected never, or a duration such as 500ms, 90s or 2m, from ${minimum} to 36500d`))

/** A number of processes, or `auto`: as many as there are processors. */
export const processes = Schema.Union([
  Schema.Literal("auto").pipe(
    Schema.decodeTo(
      Schema.Int,
      SchemaTransformation.transform({ decode: () => availableParallelism(), encode: () => "auto" as const })
    )
  ),
  integer(1, 256)
]).pipe(expecting("Expected auto, or an integer between 1 and 256"))

/** Bytes: `8MiB`, `512KiB`, or their number. */
export const sizeUpTo = (largest: "256MiB" | "1024GiB", maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\d+(\.\d+)? ?([KMG]i)?B$|^\d+$/)).pipe(
    Schema.decodeTo(
      Schema.ByteSizeFromString,
      SchemaTransformation.transform({
        decode: (text) => (/^\d+$/.test(text) ? `${text} B` : text),
        encode: (text) => text
      })
    ),
    Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })),
      SchemaTransformation.transform({ decode: ByteSize.toNumberUnsafe, encode: ByteSize.bytes })
    ),
    expecting(`Expected a size such as 8MiB, at most ${largest}`)
  )

export const size = sizeUpTo("256MiB", 2 ** 28)

export const url = (protocols: ReadonlyArray<string>, expected: string) =>
  Schema.String.check(
    Schema.makeFilter((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol))
  ).pipe(expecting(expected))

export const httpUrl = url(["http:", "https:"], "Expected an http or https URL")

/** The elements of a comma list. */
export const split = (text: string): ReadonlyArray<string> => text.split(",").map((element) => element.trim())

export const list = <A>(element: Schema.Codec<A, string>, expected: string) =>
  Schema.String.pipe(
    Schema.decodeTo(
      Schema.Array(element),
      SchemaTransformation.transform({
        decode: split,
        encode: (elements) => elements.join(",")
      })
    ),
    expecting(expected)
  )

/** Sets and alternatives, without others in them. */
const groups = /\[[^[\]/]+\]|\{[^{}]*\}/g

/** A glob that is malformed would match only itself: a rule with it would hold for nothing. */
export const isGlob = (text: string): boolean =>
  /^[\x21-\x7e]+$/.test(text) && !text.startsWith("!") && !/[[\]{}\\]/.test(text.replaceAll(groups, ""))

export const globs = list(
  Schema.String.check(Schema.makeFilter(isGlob)),
  "Expected a comma list of globs such as weather_*, without a ! in front, and without alternatives in braces"
)

const modelPattern = /^[a-z][a-z0-9_-]*\/[\x21-\x7e]+$/
export const model = matching(modelPattern, "Expected provider/model")
export const models = list(model, "Expected a comma list of provider/model")

const isRule = (value: unknown): value is EgressRule.EgressRule =>
  Predicate.isTagged(value, "Host") || Predicate.isTagged(value, "Network")

export const egressRules = list(
  Schema.String.pipe(
    Schema.decodeTo(
      Schema.declare(isRule),
      SchemaTransformation.transformEffect({
        decode: (text) =>
          Option.match(EgressRule.parse(text), {
            onNone: () => Effect.fail(new SchemaIssue.InvalidValue()),
            onSome: Effect.succeed
          }),
        // Rules are read, never written.
        encode: (): Effect.Effect<string, SchemaIssue.Issue> => Effect.fail(new SchemaIssue.InvalidValue())
      })
    )
  ),
  "Expected a comma list of hosts, *.suffixes, addresses and networks such as 10.0.0.0/8"
)

const base64 = Schema.Uint8ArrayFromBase64
const bytes32 = Schema.makeFilter((bytes: Uint8Array) => bytes.length === 32)

/** A key of 32 bytes. */
export const secretKey = Schema.RedactedFromValue(base64.check(bytes32)).pipe(expecting("Expected 32 bytes in base64"))

/** 32 bytes: 64 digits in hexadecimal, which are never 32 bytes in base64, or base64. */
export const seed = Schema.RedactedFromValue(
  Schema.Union([Schema.Uint8ArrayFromHex.check(bytes32), base64.check(bytes32)])
).pipe(expecting("Expected 32 bytes in base64, or in hex"))

export const secret = Schema.RedactedFromValue(matching(/^[\x20-\x7e]+$/, "Expected printable ASCII"))

/** A comma list of keys. */
export const secrets = list(
  Schema.RedactedFromValue(Schema.String.check(Schema.isPattern(/^[\x21-\x7e]+$/))),
  "Expected a comma list of printable ASCII"
).check(Schema.isUnique({ message: "Expected each key once" }))
