import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { RateLimited, Unauthorized } from "./Problem.ts"

/** Who sent the request. */
export class Caller extends Context.Service<Caller, CallerName>()("@bowline/protocol/api/Caller") {}

/** Finds the caller by the bearer key, and bounds the caller's requests. A gateway without keys has one caller, who needs no key. */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: Caller }>()(
  "@bowline/protocol/api/Authorization",
  {
    error: [Unauthorized, RateLimited],
    security: {
      bearer: HttpApiSecurity.bearer.pipe(
        HttpApiSecurity.annotate(
          OpenApi.Description,
          "One of the gateway's keys. Without keys it is open to its own machine"
        )
      )
    }
  }
) {}
