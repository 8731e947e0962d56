import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/api/Authorization"
import { SessionStore } from "@bowline/runtime/session/SessionStore"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { toPageRequest } from "./Paging.ts"
import { answer } from "./Refusals.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* SessionStore

    return handlers.handleAll({
      list: ({ query }) =>
        Effect.gen(function* () {
          const { items, next } = yield* sessions.list(yield* Caller, toPageRequest(query))
          return { sessions: items, next_cursor: next }
        }).pipe(answer),
      get: ({ params }) =>
        Effect.gen(function* () {
          return yield* sessions.find(yield* Caller, params.id)
        }).pipe(answer),
      messages: ({ params, query }) =>
        Effect.gen(function* () {
          const { session_id } = yield* sessions.find(yield* Caller, params.id)
          const { items, next } = yield* sessions.messages(session_id, toPageRequest(query))
          return { messages: items, next_cursor: next }
        }).pipe(answer)
    })
  })
)
