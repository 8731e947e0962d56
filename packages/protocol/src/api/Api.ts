import { Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import manifest from "../../package.json" with { type: "json" }
import { A2aApi, AgentCardsApi } from "../a2a/A2aApi.ts"
import { AccountsApi, ConnectApi } from "../account/AccountsApi.ts"
import { ConsoleApi } from "../console/ConsoleApi.ts"
import { LoginApi } from "../console/LoginApi.ts"
import { EffectsApi } from "../effect/EffectsApi.ts"
import { FilesApi } from "../file/FilesApi.ts"
import { GatewayApi } from "../gateway/GatewayApi.ts"
import { IdentityApi } from "../identity/IdentityApi.ts"
import { InboxApi } from "../inbox/InboxApi.ts"
import { KeysApi } from "../key/KeysApi.ts"
import { McpApi } from "../mcp/McpApi.ts"
import { OpenAiApi } from "../openai/OpenAiApi.ts"
import { OpenAiFilesApi } from "../openai/OpenAiFilesApi.ts"
import { ConversationsApi } from "../openai/ConversationsApi.ts"
import { ResponsesApi } from "../openai/ResponsesApi.ts"
import { OverviewApi } from "../overview/OverviewApi.ts"
import { PeersApi } from "../peer/PeersApi.ts"
import { FeedbackApi } from "../plan/FeedbackApi.ts"
import { PlansApi } from "../plan/PlansApi.ts"
import { PresetsApi } from "../preset/PresetsApi.ts"
import { CredentialsApi } from "../provider/CredentialsApi.ts"
import { SchedulesApi } from "../schedule/SchedulesApi.ts"
import { SessionsApi } from "../session/SessionsApi.ts"
import { UiApi } from "../ui/UiApi.ts"
import { WebhooksApi } from "../webhook/WebhooksApi.ts"

const decodeSpec = Schema.decodeSync(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

/** The version of the gateway: all packages have the same one. */
export const { version } = manifest

/** Effect describes an event for a failed stream. Bowline's streams end with an `error` frame instead. */
const withoutFailureEvent = (spec: object) =>
  decodeSpec(JSON.stringify(spec, (key, value: unknown) => (key === "x-effect-stream" ? undefined : value)))

/**
 * The whole HTTP API. The server implements it; the typed client and the OpenAPI document are derived from it.
 *
 * @example
 * ```ts
 * import { Api, version } from "@bowline/protocol/api/Api"
 * import { Effect } from "effect"
 * import { HttpApiClient } from "effect/http-api"
 *
 * // A client of every route. It needs an `HttpClient`.
 * export const client = HttpApiClient.make(Api, { baseUrl: "http://127.0.0.1:3774" }).pipe(
 *   Effect.annotateLogs({ version })
 * )
 * ```
 */
export class Api extends HttpApi.make("bowline")
  .add(
    PlansApi,
    InboxApi,
    WebhooksApi,
    FeedbackApi,
    SchedulesApi,
    EffectsApi,
    KeysApi,
    FilesApi,
    SessionsApi,
    CredentialsApi,
    PeersApi,
    PresetsApi,
    OverviewApi,
    ConsoleApi
  )
  .add(
    OpenAiApi,
    OpenAiFilesApi,
    ResponsesApi,
    ConversationsApi,
    UiApi,
    AgentCardsApi,
    A2aApi,
    McpApi,
    IdentityApi,
    LoginApi,
    AccountsApi,
    ConnectApi,
    GatewayApi
  )
  .annotate(HttpApi.QueryParseOptions, { errors: "all", onExcessProperty: "error" })
  .annotateMerge(
    OpenApi.annotations({
      title: "Bowline",
      version,
      description:
        "An agent gateway that never gets stuck. Post a question and a catalog of agents; a planner calls them step by step " +
        "and streams what happens. Every error is an `application/problem+json`, every response has an `X-Request-Id`. " +
        "The gateway has its [documentation](/docs) and its [console](/).",
      transform: withoutFailureEvent
    })
  ) {}
