import { IssuedKey, KeyName } from "@bowline/domain/unstable/caller/IssuedKey"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { pageEnd, pageQuery, Parameter } from "../api/PageQuery.ts"
import {
  Forbidden,
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"

/** What a key is made of. */
export const NewKey = Schema.Struct({
  name: KeyName,
  admin: Schema.optionalKey(Schema.Boolean),
  expires: Schema.optionalKey(
    Schema.String.annotate({
      description: "How long it is good, such as `90d` or `12h`, or until when (RFC 3339). For ever, if not given"
    })
  ),
  note: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(512)))
}).annotate({ identifier: "NewKey" })

const issued = IssuedKey.annotate({ identifier: "IssuedKey" })
const shown = Schema.Struct({ ...IssuedKey.fields, key: Schema.String }).annotate({
  identifier: "ShownKey",
  description: "The only answer that has the `key`: the gateway keeps a digest"
})
const failures = [Forbidden, Unavailable, Internal] as const

export class KeysApi extends HttpApiGroup.make("keys")
  .add(
    HttpApiEndpoint.post("add", "/keys", {
      payload: NewKey,
      success: shown.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Make a key for a caller",
        description:
          "For callers marked `admin`. A caller may have several keys, and must not be one whose key is configured. The key is shown this once."
      })
    ),
    HttpApiEndpoint.get("list", "/keys", {
      query: pageQuery,
      success: Schema.Struct({ keys: Schema.Array(issued), ...pageEnd }),
      error: [InvalidRequest, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The keys that admins have made, newest first",
        description: "For callers marked `admin`. Never shows a key. Those of the configuration are not among them."
      })
    ),
    HttpApiEndpoint.delete("revoke", "/keys/:id", {
      params: { id: Schema.String.annotate({ description: "`key_id` of the key" }) },
      query: {
        end_plans: Schema.optionalKey(
          Parameter.check(Schema.isPattern(/^(true|false)$/, { message: "Expected true or false" })).annotate({
            description: "With `true` the plans that were started with the key end, `cancelled`"
          })
        )
      },
      success: HttpApiSchema.NoContent,
      error: [InvalidRequest, NotFound, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Revoke a key: within a second no replica knows it any more",
        description: "For callers marked `admin`. Its plans and streams go on, unless `end_plans` is `true`."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Keys") {}
