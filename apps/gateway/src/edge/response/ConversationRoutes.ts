import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Metadata } from "@bowline/domain/plan/PlanRequest"
import { MessageId } from "@bowline/domain/session/Message"
import { ExternalSessionId, type Session, SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { Conversation } from "@bowline/protocol/unstable/openai/ConversationsApi"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Duration, Effect, Option, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import { given } from "../openai/ChatSampling.ts"
import * as ItemPage from "../openai/ItemPage.ts"
import * as ConversationItems from "./ConversationItems.ts"
import * as ConversationPage from "./ConversationPage.ts"
import { itemsOf } from "./SessionItems.ts"

const Items = Schema.Array(Schema.Record(Schema.String, Schema.Json)).check(
  Schema.isMaxLength(20, { message: "Expected at most 20 items" })
)
const New = Schema.Struct({ items: given(Items), metadata: given(Metadata) })
const Described = Schema.Struct({ metadata: Metadata })
const More = Schema.Struct({ items: Items })

const shown = (
  { created_at, external_session_id, session_id }: Session,
  metadata: Conversation["metadata"]
): Conversation => ({
  id: external_session_id ?? session_id,
  object: "conversation",
  created_at: Math.floor(Date.parse(created_at) / 1_000),
  metadata
})

/** OpenAI's Conversations: sessions that a client makes, describes, reads and extends in its words. */
export const layer = HttpApiBuilder.group(
  Api,
  "conversations",
  Effect.fnUntraced(function* (handlers) {
    const store = yield* SessionStore
    const sessions = yield* Sessions
    const uuid = yield* UuidGenerator
    const { maxBody, sessionTtl } = yield* GatewayConfig
    const readNew = readForeignJson(New, maxBody)
    const readDescribed = readForeignJson(Described, maxBody)
    const readItems = yield* ConversationItems.make
    const pages = ConversationPage.make(store)
    const readMore = readForeignJson(More, maxBody)

    const newMessages = (caller: CallerName, items: typeof Items.Type) =>
      Effect.map(
        readItems(
          caller,
          items.map((item, index) => [`items[${index}]`, item])
        ),
        (told) => told.map((message) => ({ message_id: MessageId.make(`msg_${uuid()}`), ...message }))
      )

    const conversation = Effect.fnUntraced(function* (caller: CallerName, id: string) {
      const session = yield* store.find(caller, id)
      return shown(session, yield* store.metadata(session.session_id))
    })

    return handlers
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { items, metadata } = (yield* readNew(request)).value
          const now = yield* Clock.currentTimeMillis
          const external_session_id = ExternalSessionId.make(`conv_${uuid()}`)
          yield* store.open(caller, {
            session_id: SessionId.make(`session_${uuid()}`),
            external_session_id,
            metadata: metadata ?? {},
            messages: yield* newMessages(caller, items ?? []),
            at: fromMillis(now),
            expires_at: fromMillis(now + Duration.toMillis(sessionTtl))
          })
          return HttpServerResponse.jsonUnsafe(yield* conversation(caller, external_session_id))
        }).pipe(answer)
      )
      .handle("get", ({ params }) =>
        Effect.gen(function* () {
          return yield* conversation(yield* Caller, params.id)
        }).pipe(answer)
      )
      .handleRaw("describe", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { metadata } = (yield* readDescribed(request)).value
          const { session_id } = yield* store.find(caller, params.id)
          yield* store.describe(session_id, metadata)
          return HttpServerResponse.jsonUnsafe(yield* conversation(caller, params.id))
        }).pipe(answer)
      )
      .handle("delete", ({ params }) =>
        Effect.gen(function* () {
          yield* sessions.delete(yield* Caller, params.id)
          return { id: params.id, object: "conversation.deleted" as const, deleted: true as const }
        }).pipe(answer)
      )
      .handle("items", ({ params, query }) =>
        Effect.gen(function* () {
          const session = yield* store.find(yield* Caller, params.id)
          return HttpServerResponse.jsonUnsafe(yield* pages.page(session, query))
        }).pipe(answer)
      )
      .handleRaw("addItems", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const messages = yield* newMessages(caller, (yield* readMore(request)).value.items)
          yield* sessions.append(caller, params.id, messages)
          const page = ItemPage.make(itemsOf(messages, []), { order: "asc" })
          return HttpServerResponse.jsonUnsafe(Option.getOrThrow(page))
        }).pipe(answer)
      )
      .handle("item", ({ params }) =>
        Effect.gen(function* () {
          const session = yield* store.find(yield* Caller, params.id)
          return HttpServerResponse.jsonUnsafe(yield* pages.item(session, params.item_id))
        }).pipe(answer)
      )
      .handle("deleteItem", ({ params }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const session = yield* store.find(caller, params.id)
          yield* pages.item(session, params.item_id)
          const { items } = yield* store.messages(session.session_id, { limit: 2, newestFirst: true })
          const [last, before] = items
          if (before === undefined || last?.message_id !== params.item_id || itemsOf([last], []).length > 1) {
            const message =
              "Expected the last item, a message behind another one: a history has no gaps. Delete the conversation instead"
            return yield* invalid([{ path: "item_id", message }])
          }
          yield* sessions.revert(caller, params.id, before.message_id)
          return yield* conversation(caller, params.id)
        }).pipe(answer)
      )
  })
)
