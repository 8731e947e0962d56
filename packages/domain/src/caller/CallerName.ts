import { Schema } from "effect"

/**
 * Who posts plans: the name in front of a bearer key. It owns sessions and plans.
 *
 * @example
 * ```ts
 * import { anonymous, CallerName } from "@bowline/domain/caller/CallerName"
 *
 * export const caller = process.env["USER"] === undefined ? anonymous : CallerName.make(process.env["USER"])
 * ```
 */
export const CallerName = Schema.NonEmptyString.pipe(Schema.brand("CallerName"))
export type CallerName = typeof CallerName.Type

/** The one caller of a gateway that has no keys. */
export const anonymous = CallerName.make("anonymous")
