import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Metadata } from "@bowline/domain/plan/PlanRequest"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { MessageId } from "@bowline/domain/session/Message"
import { ExternalSessionId, type Session, SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { Conversation } from "@bowline/protocol/unstable/openai/ConversationsApi"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { all } from "@bowline/runtime/unstable/record/PlanExport"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Duration, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { answer, invalid } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import { given } from "../openai/ChatSampling.ts"
import * as ItemPage from "../openai/ItemPage.ts"
import * as ResponseInput from "./ResponseInput.ts"
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
    const readMore = readForeignJson(More, maxBody)

    const newMessages = (items: typeof Items.Type) =>
      Effect.map(Effect.mapError(Effect.fromResult(ResponseInput.readAllTold(items)), invalid), (told) =>
        told.map(({ role, text }) => ({
          message_id: MessageId.make(`msg_${uuid()}`),
          role,
          parts: [{ type: "text" as const, text }]
        }))
      )

    const conversation = Effect.fnUntraced(function* (caller: CallerName, id: string) {
      const session = yield* store.find(caller, id)
      return shown(session, yield* store.metadata(session.session_id))
    })

    /** The session with its messages, and these as items. */
    const whole = Effect.fnUntraced(function* (caller: CallerName, id: string) {
      const { agents, session_id } = yield* store.find(caller, id)
      const messages = yield* all((page) => store.messages(session_id, page))
      const items = itemsOf(
        messages,
        agents.map(({ name }) => name)
      )
      return { messages, items }
    })

    const pageOf = (items: ReturnType<typeof itemsOf>, query: ItemPage.Query) =>
      Effect.mapError(Effect.fromOption(ItemPage.make(items, query)), () =>
        invalid([{ path: "after", message: "Expected the id of an item" }])
      )

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
            messages: yield* newMessages(items ?? []),
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
          const { items } = yield* whole(yield* Caller, params.id)
          return HttpServerResponse.jsonUnsafe(yield* pageOf(items, query))
        }).pipe(answer)
      )
      .handleRaw("addItems", ({ params, request }) =>
        Effect.gen(function* () {
          const messages = yield* newMessages((yield* readMore(request)).value.items)
          yield* sessions.append(yield* Caller, params.id, messages)
          const page = yield* pageOf(itemsOf(messages, []), { order: "asc" })
          return HttpServerResponse.jsonUnsafe(page)
        }).pipe(answer)
      )
      .handle("item", ({ params }) =>
        Effect.gen(function* () {
          const { items } = yield* whole(yield* Caller, params.id)
          const found = items.find(({ id }) => id === params.item_id)
          return HttpServerResponse.jsonUnsafe(found ?? (yield* new NotFound({ what: "message" })))
        }).pipe(answer)
      )
      .handle("deleteItem", ({ params }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { items, messages } = yield* whole(caller, params.id)
          if (!items.some(({ id }) => id === params.item_id)) return yield* new NotFound({ what: "message" })
          const [before, last] = messages.slice(-2)
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
