import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Effect, Option, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { Base64Url } from "effect/encoding"

/** A parameter of a query. It may not be repeated. */
export const Parameter = Schema.String.annotate({ message: "Expected one value" })

const nextCursor = "Expected the next_cursor of a page"

const decodeCursor = (text: string): Option.Option<number> =>
  Base64Url.decodeString(text).pipe(
    Result.getSuccess,
    Option.filter((digits) => /^\d{1,15}$/.test(digits)),
    Option.map(Number)
  )

/** Where a page of a list starts. It is a number to the gateway, and opaque to callers. */
export const Cursor = Parameter.annotate({ description: "The `next_cursor` of the page before" }).pipe(
  Schema.decodeTo(
    Schema.Int,
    SchemaTransformation.transformEffect({
      decode: (text) =>
        Option.match(decodeCursor(text), {
          onNone: () => Effect.fail(new SchemaIssue.InvalidValue({ message: nextCursor })),
          onSome: Effect.succeed
        }),
      encode: (start: number) => Effect.succeed(Base64Url.encode(String(start)))
    })
  )
)

/** Where a page starts that is ordered by time: behind the entry with this time, in milliseconds, and this number. Without a time it is a `Cursor`. */
export const TimeCursor = Parameter.annotate({ description: "The `next_cursor` of the page before" }).pipe(
  Schema.decodeTo(
    Schema.Struct({ at: Schema.NullOr(Schema.Int), ordinal: Schema.Int }),
    SchemaTransformation.transformEffect({
      decode: (text) => {
        const found = /^(?:(\d{1,15})\.)?(\d{1,15})$/.exec(Result.getOrElse(Base64Url.decodeString(text), () => ""))
        return found === null
          ? Effect.fail(new SchemaIssue.InvalidValue({ message: nextCursor }))
          : Effect.succeed({ at: found[1] === undefined ? null : Number(found[1]), ordinal: Number(found[2]) })
      },
      encode: ({ at, ordinal }: { readonly at: number | null; readonly ordinal: number }) =>
        Effect.succeed(Base64Url.encode(at === null ? String(ordinal) : `${at}.${ordinal}`))
    })
  )
)

const Limit = Parameter.annotate({ description: "Entries of a page: 1 to 200, 50 if not given" })
  .check(Schema.isPattern(/^\d{1,9}$/u, { message: "Expected an integer between 1 and 200" }))
  .pipe(
    Schema.decodeTo(
      Schema.Int.check(
        Schema.isBetween({ minimum: 1, maximum: 200 }, { message: "Expected an integer between 1 and 200" })
      ),
      SchemaTransformation.numberFromString
    ),
    Schema.withDecodingDefaultKey(Effect.succeed("50"))
  )

/** The query of every list. */
export const pageQuery = { limit: Limit, cursor: Schema.optionalKey(Cursor) }

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i

/** An instant (RFC 3339) as a caller writes it, as every timestamp of the gateway is written. */
export const Instant = Parameter.check(
  Schema.makeFilter(
    (text) => (instant.test(text) && Date.parse(text) >= 0) || "Expected an instant such as 2026-01-02T03:04:05Z"
  )
).pipe(
  Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transform({
      decode: (text) => fromMillis(Date.parse(text)),
      encode: (text: string) => text
    })
  )
)

/** A day in UTC. */
export const Day = Parameter.check(
  Schema.makeFilter((text) => {
    const isDay =
      /^\d{4}-\d\d-\d\d$/.test(text) && Date.parse(text) >= 0 && fromMillis(Date.parse(text)).startsWith(text)
    return isDay || "Expected a day such as 2026-01-02"
  })
)

/** The query of every list that an admin may ask for another caller. */
export const ownerQuery = {
  caller: Schema.optionalKey(
    Parameter.annotate({
      description: "Whose plans: for callers marked `admin`. You, if not given; `*` stands for everybody"
    })
  )
}

/** What every list has beside its entries: where the next page starts, or null at the end. */
export const pageEnd = { next_cursor: Schema.NullOr(Cursor) }
