import { CallerName } from "@bowline/domain/caller/CallerName"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Internal } from "../api/Problem.ts"

/**
 * What a page has to know before it shows anything. `trace_url` is the URL of a trace with `{trace_id}` in it, null if there is none;
 * `presets` says whether the caller has presets to choose from, `approvals` whether calls can wait for it, and `admin` whether it may see
 * what only admins see.
 */
const ConsoleConfig = Schema.Struct({
  version: Schema.String,
  caller: CallerName,
  admin: Schema.Boolean,
  trace_url: Schema.NullOr(Schema.String),
  presets: Schema.Boolean,
  approvals: Schema.Boolean
}).annotate({ identifier: "ConsoleConfig" })

export class ConsoleApi extends HttpApiGroup.make("console")
  .add(
    HttpApiEndpoint.get("config", "/console/config", { success: ConsoleConfig, error: [Internal] }).annotate(
      OpenApi.Summary,
      "What the web console needs to know of the gateway and of you"
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Console") {}
