import { Api } from "@bowline/protocol/api/Api"
import { Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as A2aEdge from "../edge/a2a/A2aEdge.ts"
import * as A2aRoutes from "../edge/a2a/A2aRoutes.ts"
import * as AgentCardRoutes from "../edge/a2a/AgentCardRoutes.ts"
import * as BearerAuthorization from "../http/BearerAuthorization.ts"
import { KnownCallers } from "../http/KnownCallers.ts"
import * as ConsoleRoutes from "./ConsoleRoutes.ts"
import * as CredentialRoutes from "./CredentialRoutes.ts"
import * as RequestMiddleware from "../http/RequestMiddleware.ts"
import * as ConsolePages from "../page/ConsolePages.ts"
import * as DocsPages from "../page/DocsPages.ts"
import * as ConnectRoutes from "../page/ConnectRoutes.ts"
import * as LoginRoutes from "../page/LoginRoutes.ts"
import * as AccountRoutes from "./AccountRoutes.ts"
import * as McpRoutes from "../edge/mcp/McpRoutes.ts"
import * as RpcMessage from "../edge/mcp/RpcMessage.ts"
import * as OpenAiError from "../edge/openai/OpenAiError.ts"
import * as ConversationRoutes from "../edge/response/ConversationRoutes.ts"
import * as ResponseRoutes from "../edge/response/ResponseRoutes.ts"
import * as OpenAiFileRoutes from "../edge/openai/OpenAiFileRoutes.ts"
import * as OpenAiRoutes from "../edge/openai/OpenAiRoutes.ts"
import * as UiRoutes from "../edge/ui/UiRoutes.ts"
import * as EffectRoutes from "./EffectRoutes.ts"
import * as FeedbackRoutes from "./FeedbackRoutes.ts"
import * as FileRoutes from "./FileRoutes.ts"
import * as GatewayRoutes from "./GatewayRoutes.ts"
import * as KeyRoutes from "./KeyRoutes.ts"
import * as InboxRoutes from "./InboxRoutes.ts"
import * as IdentityRoutes from "./IdentityRoutes.ts"
import * as OverviewRoutes from "./OverviewRoutes.ts"
import * as PeerRoutes from "./PeerRoutes.ts"
import * as PlanRoutes from "./PlanRoutes.ts"
import * as PresetRoutes from "./PresetRoutes.ts"
import * as ScheduleRoutes from "./ScheduleRoutes.ts"
import * as SessionRoutes from "./SessionRoutes.ts"
import * as WebhookRoutes from "./WebhookRoutes.ts"

const routes = HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
  Layer.provide([
    PlanRoutes.layer,
    InboxRoutes.layer,
    WebhookRoutes.layer,
    ScheduleRoutes.layer,
    EffectRoutes.layer,
    KeyRoutes.layer,
    FeedbackRoutes.layer,
    FileRoutes.layer,
    SessionRoutes.layer,
    CredentialRoutes.layer,
    PeerRoutes.layer,
    PresetRoutes.layer,
    OverviewRoutes.layer,
    ConsoleRoutes.layer,
    OpenAiRoutes.layer,
    OpenAiFileRoutes.layer,
    ConversationRoutes.layer,
    ResponseRoutes.layer,
    UiRoutes.layer,
    McpRoutes.layer,
    AgentCardRoutes.layer,
    A2aRoutes.layer,
    IdentityRoutes.layer,
    LoginRoutes.layer,
    AccountRoutes.layer,
    ConnectRoutes.layer,
    GatewayRoutes.layer
  ]),
  Layer.provide(BearerAuthorization.layer),
  Layer.provide(KnownCallers.layer),
  Layer.merge(DocsPages.layer),
  Layer.provide(RequestMiddleware.layer([OpenAiError.edge, RpcMessage.edge, ...A2aEdge.edges], ConsolePages.make))
)

/** Every route of the gateway, served. */
export const server = HttpRouter.serve(routes, {
  disableLogger: true,
  disableListenLog: true,
  // A caller's name of a session has up to 200 characters. In a URL each of them takes up to three.
  routerConfig: { maxParamLength: 600 }
})
