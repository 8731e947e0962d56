import type { Message } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { deletedPart } from "@bowline/domain/unstable/file/QuestionPart"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { RevertRequest } from "@bowline/protocol/unstable/session/SessionsApi"
import { SessionCompaction } from "@bowline/runtime/plan/SessionCompaction"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { allFiles, FileStore, idsTold } from "@bowline/runtime/unstable/store/FileStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Struct } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { budgetSpent, answer, Refused } from "../http/Refusals.ts"
import { readJson, readNothing } from "../http/RequestBody.ts"

const otherOrder = { path: ["cursor"], message: "Expected the next_cursor of a page in the same order" }

/** Messages of a session, with a line in the place of each file that was deleted, as models are told. */
const withoutDeleted = Effect.fnUntraced(function* (
  files: FileStore["Service"],
  session: SessionId,
  messages: ReadonlyArray<Message>
) {
  if (idsTold(messages).length === 0) return messages
  const there = new Set((yield* files.ofSession(session, allFiles)).map(({ file_id }) => file_id))
  return messages.map((message): Message => ({
    ...message,
    parts: message.parts.map((part) =>
      part.type === "file" && "file_id" in part && !there.has(part.file_id) ? deletedPart(part.name) : part
    )
  }))
})

export const layer = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* SessionStore
    const files = yield* FileStore
    const changes = yield* Sessions
    const compaction = yield* SessionCompaction
    const { maxBody } = yield* GatewayConfig
    const expectNothing = readNothing(maxBody)
    const readRevert = readJson(RevertRequest, maxBody)

    return handlers
      .handle("list", ({ query }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { cursor, limit, order } = query
          if (order === "active") {
            if (cursor?.at === null) return yield* new InvalidRequest({ issues: [otherOrder] })
            const at = cursor === undefined ? {} : { cursor: { at: fromMillis(cursor.at), ordinal: cursor.ordinal } }
            const { items, next } = yield* sessions.recent(caller, { limit, ...at })
            return { sessions: items, next_cursor: next === null ? null : { ...next, at: Date.parse(next.at) } }
          }
          const { items, next } = yield* sessions.list(
            caller,
            cursor === undefined ? { limit } : { limit, cursor: cursor.ordinal }
          )
          return { sessions: items, next_cursor: next === null ? null : { at: null, ordinal: next } }
        }).pipe(answer)
      )
      .handle("get", ({ params }) =>
        Effect.gen(function* () {
          return yield* sessions.find(yield* Caller, params.id)
        }).pipe(answer)
      )
      .handle("messages", ({ params, query }) =>
        Effect.gen(function* () {
          const { session_id } = yield* sessions.find(yield* Caller, params.id)
          const { items, next } = yield* sessions.messages(session_id, query)
          return { messages: yield* withoutDeleted(files, session_id, items), next_cursor: next }
        }).pipe(answer)
      )
      .handleRaw("revert", ({ params, request }) =>
        Effect.gen(function* () {
          const { to_message_id } = yield* readRevert(request)
          const session = yield* changes.revert(yield* Caller, params.id, to_message_id)
          return HttpServerResponse.jsonUnsafe(session)
        }).pipe(answer)
      )
      .handle("compact", ({ params, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          const compacted = yield* compaction.compact(yield* Caller, params.id)
          return { compaction: compacted && Struct.omit(compacted, ["usage"]) }
        }).pipe(
          Effect.catchTags({
            NoSummary: ({ message }) => Effect.fail(new Refused({ code: "unavailable", detail: message })),
            BudgetSpent: (spent) => Effect.fail(budgetSpent(spent))
          }),
          answer
        )
      )
      .handle("delete", ({ params }) =>
        Effect.gen(function* () {
          return yield* changes.delete(yield* Caller, params.id)
        }).pipe(answer)
      )
  })
)
