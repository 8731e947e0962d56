import { Schema } from "effect"
import { CallerName } from "./CallerName.ts"

/** The id of a key that an admin has made. It is no secret. */
export const KeyId = Schema.String.check(Schema.isPattern(/^key_[0-9a-f-]{36}$/u)).pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type

/** The name of a caller with a key. It has no colon: `<issuer>:<sub>` is a caller that an identity provider vouches for. */
export const KeyName = CallerName.check(
  Schema.isPattern(/^[\w.@-]{1,64}$/u, {
    message: "Expected a name of 1 to 64 letters, digits, _ . @ -, without a colon"
  })
)

/**
 * A key that an admin has made while the gateway ran, without the key itself: only a digest of it is stored. `last_used_at` is exact to the
 * minute. Times are ISO 8601 in UTC; a key without `expires_at` is good until somebody revokes it.
 */
export const IssuedKey = Schema.Struct({
  key_id: KeyId,
  name: CallerName,
  admin: Schema.Boolean,
  note: Schema.NullOr(Schema.String),
  created_by: CallerName,
  created_at: Schema.String,
  last_used_at: Schema.NullOr(Schema.String),
  expires_at: Schema.NullOr(Schema.String)
})
export type IssuedKey = typeof IssuedKey.Type

/** How the caller of a plan came in: with which key that an admin has made, and of which groups, as its identity provider says. It is stored with the plan. */
export const Asker = Schema.Struct({
  key_id: Schema.optionalKey(KeyId),
  groups: Schema.optionalKey(Schema.Array(Schema.String))
})
