import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  Forbidden,
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  RateLimited,
  Unauthorized,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"

/** A key of the gateway, as a person types it into the console. */
export const LoginRequest = Schema.Struct({
  key: Schema.RedactedFromValue(
    Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,4096}$/, { message: "Expected a key of printable ASCII" }))
  )
}).annotate({ identifier: "LoginRequest" })

/** Where a login ends at the identity provider. */
const EndedLogin = Schema.Struct({ end_session_url: Schema.String }).annotate({ identifier: "EndedLogin" })

const failures = [NotFound, Unavailable, Internal] as const

/** How a page of the gateway's own console gets the cookie that stands for a key, and gives it back. */
export class LoginApi extends HttpApiGroup.make("login")
  .add(
    HttpApiEndpoint.post("begin", "/console/session", {
      payload: LoginRequest,
      success: HttpApiSchema.NoContent,
      error: [InvalidRequest, Unauthorized, PayloadTooLarge, UnsupportedMediaType, RateLimited, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Log in to the web console",
        description:
          "Sets a cookie that counts as the key for 12 hours: `__Host-bowline`, or `bowline` over plain HTTP on a loopback name."
      })
    ),
    HttpApiEndpoint.get("depart", "/console/login", {
      success: HttpApiSchema.Empty(303),
      error: [...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Log in to the web console with the identity provider",
        description: "Sends the browser there. 404 without `console.oidc`."
      })
    ),
    HttpApiEndpoint.get("arrive", "/console/callback", {
      query: Schema.Record(Schema.String, Schema.String),
      success: HttpApiSchema.Empty(303),
      error: [Unauthorized, Forbidden, RateLimited, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Come back from the identity provider",
        description:
          "Only the browser that has left can come back, once, within 10 minutes. Sets the cookie, and shows the console."
      })
    ),
    HttpApiEndpoint.delete("end", "/console/session", {
      success: [HttpApiSchema.NoContent, EndedLogin],
      error: [Forbidden, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Log out of the web console",
        description:
          "Ends the login of the cookie, and takes the cookie back. Of a login with an identity provider it says where the browser has to go to end that one, too."
      })
    )
  )
  .annotate(OpenApi.Title, "Console") {}
