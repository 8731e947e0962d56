import { Config, ConfigProvider, Duration, Effect, Glob, Redacted, Result } from "effect"

/** Reads the text of a variable, or says what it expected, without repeating the text: that may be a secret. */
export type Parse<A> = (text: string) => Result.Result<A, string>

/** A variable that may be missing; an empty one is. */
export const setting = <A, const B>(name: string, parse: Parse<A>, fallback: B): Config.Config<A | B> =>
  Config.String(name).pipe(
    Config.mapEffect((text) =>
      Effect.fromResult(parse(text.trim())).pipe(
        Effect.mapError(
          (expected) => new Config.ConfigError(new ConfigProvider.SourceError({ message: `${name}: ${expected}` }))
        )
      )
    ),
    Config.withDefault(fallback)
  )

export const matching =
  (pattern: RegExp, expected: string): Parse<string> =>
  (text) =>
    pattern.test(text) ? Result.succeed(text) : Result.fail(expected)

export const oneOf =
  <const Values extends ReadonlyArray<string>>(values: Values): Parse<Values[number]> =>
  (text) =>
    Result.fromNullishOr(
      values.find((value) => value === text.toLowerCase()),
      () => `Expected one of ${values.join(", ")}`
    )

export const flag: Parse<boolean> = (text) => Result.map(oneOf(["true", "false"])(text), (value) => value === "true")

/** A key of 32 bytes, of what they are written in. */
export const bytes32 = (
  decoded: Result.Result<Uint8Array, unknown>,
  expected: string
): Result.Result<Redacted.Redacted<Uint8Array>, string> =>
  Result.isSuccess(decoded) && decoded.success.length === 32
    ? Result.succeed(Redacted.make(decoded.success))
    : Result.fail(expected)

const within = (value: number, minimum: number, maximum: number) => value >= minimum && value <= maximum

export const integer =
  (minimum: number, maximum: number): Parse<number> =>
  (text) =>
    /^\d{1,15}$/.test(text) && within(Number(text), minimum, maximum)
      ? Result.succeed(Number(text))
      : Result.fail(`Expected an integer between ${minimum} and ${maximum}`)

const scaled = (text: string, units: { readonly [unit: string]: number }): number => {
  const [, digits, unit] = /^(\d{1,12}(?:\.\d{1,3})?) ?([A-Za-z]+)$/.exec(text) ?? []
  return Number(digits) * (unit === undefined ? Number.NaN : (units[unit] ?? Number.NaN))
}

const millis = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `500ms`, `90s`, `2m`, `1h`, `30d`. */
export const duration =
  (minimum: `${number}${keyof typeof millis}`): Parse<Duration.Duration> =>
  (text) => {
    const value = scaled(text, millis)
    return within(value, scaled(minimum, millis), 36_500 * millis.d)
      ? Result.succeed(Duration.millis(value))
      : Result.fail(`Expected a duration such as 500ms, 90s or 2m, from ${minimum} to 36500d`)
  }

/** Bytes: `8MiB`, `512KiB`, or their number. */
export const size: Parse<number> = (text) => {
  const value = /^\d{1,10}$/.test(text)
    ? Number(text)
    : scaled(text, { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 })
  return within(value, 1, 2 ** 28)
    ? Result.succeed(Math.floor(value))
    : Result.fail("Expected a size such as 8MiB, at most 256MiB")
}

export const url =
  (protocols: ReadonlyArray<string>, expected: string): Parse<string> =>
  (text) =>
    URL.canParse(text) && protocols.includes(new URL(text).protocol) ? Result.succeed(text) : Result.fail(expected)

/** A comma list of globs, as whether a name matches one of them. In `*` alone, `/` has no meaning: it matches every name. */
export const globs: Parse<(name: string) => boolean> = (text) => {
  const patterns = text.split(",").map((pattern) => pattern.trim())
  if (patterns.includes("")) return Result.fail("Expected a comma list of globs")
  const compiled = patterns.map((pattern) => Glob.make(pattern === "*" ? "**" : pattern, { dot: true }))
  return Result.succeed((name) => compiled.some(Glob.match(name)))
}
