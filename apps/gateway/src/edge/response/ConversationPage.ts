import { NotFound } from "@bowline/domain/plan/Refusal"
import { type Message, MessageId } from "@bowline/domain/session/Message"
import type { Session } from "@bowline/domain/session/Session"
import type { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option, Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import * as ItemPage from "../openai/ItemPage.ts"
import { itemsOf } from "./SessionItems.ts"

/** Messages that are read at once. */
const chunk = 100

const decodeId = Schema.decodeUnknownOption(MessageId)

/** The message of an item: the second text of a message and those behind it have a number. An item of a call has none in its id. */
const messageIdOf = (item: string): Option.Option<MessageId> => decodeId(item.replace(/_\d+$/, ""))

type Conversation = Pick<Session, "agents" | "session_id">

/** Reads the items of conversations: of a history no more than a page needs. */
export const make = (store: SessionStore["Service"]) => {
  const messageOf = ({ session_id }: Conversation, item: string) =>
    Option.match(messageIdOf(item), {
      onNone: () => Effect.succeedNone,
      onSome: (id) =>
        Effect.catchTag(Effect.asSome(store.message(session_id, id)), "NotFound", () => Effect.succeedNone)
    })

  /** The results of its calls follow a message directly. */
  const resultsBehind = Effect.fnUntraced(function* ({ session_id }: Conversation, { seq }: Message) {
    const { items } = yield* store.messages(session_id, { limit: chunk, cursor: seq })
    const end = items.findIndex(({ role }) => role !== "tool")
    return end === -1 ? items : items.slice(0, end)
  })

  /** Reads in this order from the message of `from` on, or else from the first one, until what was read `isEnough`. Gives it oldest first. */
  const read = Effect.fnUntraced(function* (
    conversation: Conversation,
    newestFirst: boolean,
    from: Message | undefined,
    isEnough: (messages: ReadonlyArray<Message>) => boolean
  ) {
    let messages = newestFirst && from !== undefined ? yield* resultsBehind(conversation, from) : []
    let cursor = from === undefined ? undefined : from.seq + (newestFirst ? 1 : -1)
    for (;;) {
      const page = { limit: chunk, newestFirst, ...(cursor !== undefined && { cursor }) }
      const { items, next } = yield* store.messages(conversation.session_id, page)
      messages = newestFirst ? [...items.toReversed(), ...messages] : [...messages, ...items]
      if (next === null || isEnough(messages)) return messages
      cursor = next
    }
  })

  const shown = ({ agents }: Conversation, messages: ReadonlyArray<Message>) =>
    itemsOf(
      messages,
      agents.map(({ name }) => name)
    )

  return {
    page: Effect.fnUntraced(function* (conversation: Conversation, query: ItemPage.Query) {
      const { after, limit = 20, order = "desc" } = query
      const from = after === undefined ? Option.none() : yield* messageOf(conversation, after)
      const newestFirst = order === "desc"
      const pageOf = (messages: ReadonlyArray<Message>) => ItemPage.make(shown(conversation, messages), query)
      const isEnough = (messages: ReadonlyArray<Message>) =>
        Option.exists(pageOf(messages), ({ data, has_more }) => {
          if (data.length < limit || !has_more) return false
          // The results of the last calls may come with the next messages.
          return newestFirst || !data.some((item) => item.type === "mcp_call" && item.output === null)
        })
      const messages = yield* read(conversation, newestFirst, Option.getOrUndefined(from), isEnough)
      return yield* Effect.mapError(Effect.fromOption(pageOf(messages)), () =>
        invalid([{ path: "after", message: "Expected the id of an item" }])
      )
    }),
    item: Effect.fnUntraced(function* (conversation: Conversation, id: string) {
      const isThere = (messages: ReadonlyArray<Message>) => shown(conversation, messages).some((item) => item.id === id)
      const of = yield* messageOf(conversation, id)
      const messages = Option.isSome(of) ? [of.value] : yield* read(conversation, true, undefined, isThere)
      return shown(conversation, messages).find((item) => item.id === id) ?? (yield* new NotFound({ what: "message" }))
    })
  }
}
