import type { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { Metadata } from "@bowline/domain/plan/PlanRequest"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { MessagePart } from "@bowline/domain/session/Message"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { all } from "@bowline/runtime/unstable/record/PlanExport"
import { PlanStore, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option, Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import * as ShownFiles from "../../http/ShownFiles.ts"
import { ChatAnswer } from "./ChatAnswer.ts"
import { ChatLeg } from "./ChatLeg.ts"
import { chatId } from "./ChatChunks.ts"
import * as ItemPage from "./ItemPage.ts"

const type = "chat.completion"

/** What a completion that is stored repeats of its request. `created` is in seconds. */
const ChatEcho = Schema.Struct({
  type: Schema.tag(type),
  created: Schema.Int,
  model: Schema.String,
  metadata: Schema.Record(Schema.String, Schema.String)
})

export const echo = (fields: Omit<typeof ChatEcho.Type, "type">): typeof ChatEcho.Type => ({ type, ...fields })

const decodeEcho = Schema.decodeUnknownOption(ChatEcho)
const decodePlanId = Schema.decodeUnknownOption(PlanId)

const planOf = (id: string) => decodePlanId(id.replace(/^chatcmpl-/, ""))

const missing = new NotFound({ what: "completion" })

const decodeInstructions = Schema.decodeUnknownOption(Schema.Struct({ instructions: Schema.String }))

/** A message as the list of a completion shows it. Files stand there by their names. */
const messageOf = (id: string, role: string, parts: ReadonlyArray<MessagePart>) => ({
  id,
  role,
  name: null,
  content: parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n"),
  content_parts: parts.some(({ type }) => type === "file")
    ? parts.flatMap((part): ReadonlyArray<object> => {
        if (part.type === "text") return [{ type: "text", text: part.text }]
        return part.type === "file" && "file_id" in part ? [{ type: "file", file: { file_id: part.file_id } }] : []
      })
    : null
})

/** Which completions a list has: those with this model and all of these metadata. */
interface ListQuery extends ItemPage.Query {
  readonly model?: string
  readonly metadata?: ReadonlyArray<readonly [key: string, value: string]>
}

/** How many completions of a page are read at once: each of them is one row. */
const concurrency = 8

/** Reads the completions that their callers wanted to be stored, once they are whole. Each follows from its plan. */
export const make = Effect.gen(function* () {
  const store = yield* PlanStore
  const sessions = yield* SessionStore
  const shown = yield* ShownFiles.make

  const read = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId) {
    const told = yield* Effect.catchTag(store.told(caller, plan_id), "NotFound", () => Effect.fail(missing))
    const { created, metadata, model } = yield* Effect.mapError(Effect.fromOption(decodeEcho(told.echo)), () => missing)
    const { final } = told.plan
    if (final === null) return yield* missing
    const files = shown(caller)
    const answer = new ChatAnswer(new ChatLeg([], files))
    const { events } = yield* PlanGist.read(store, told)
    yield* files.load(events)
    for (const event of events) answer.tell(event)
    return { ...answer.completion({ plan_id, created, model }, final), metadata }
  })

  const find = Effect.fnUntraced(function* (caller: CallerName, id: string) {
    const plan_id = yield* Effect.mapError(Effect.fromOption(planOf(id)), () => missing)
    return { plan_id, completion: yield* read(caller, plan_id) }
  })

  return {
    /** The completion of this id. One that is not over, failed, or was not to be stored is not found. */
    find,
    /** Gives the completion other metadata, and returns it. Those of its plan stay. */
    describe: Effect.fnUntraced(function* (caller: CallerName, id: string, metadata: typeof Metadata.Type) {
      const { plan_id } = yield* find(caller, id)
      const told = yield* Effect.catchTag(store.echo(caller, plan_id), "NotFound", () => Effect.fail(missing))
      const { created, model } = yield* Effect.mapError(Effect.fromOption(decodeEcho(told)), () => missing)
      yield* store.setEcho(plan_id, echo({ created, model, metadata }))
      return yield* read(caller, plan_id)
    }),
    /** What the completion was asked: the instructions, the history that it was told or has found in its session, and the question. */
    messages: Effect.fnUntraced(function* (caller: CallerName, id: string, query: ItemPage.Query) {
      const { plan_id } = yield* find(caller, id)
      const { request } = yield* Effect.catchTag(store.recorded(caller, plan_id), "NotFound", () =>
        Effect.fail(missing)
      )
      const { session_id } = yield* Effect.catchTag(store.get(caller, plan_id), "NotFound", () => Effect.fail(missing))
      const history = yield* all((page) => sessions.messages(session_id, page))
      const asked = history.findIndex(({ message_id }) => message_id === questionId(plan_id))
      const instructions = Option.toArray(decodeInstructions(request)).map(({ instructions: text }) => ({
        role: "system",
        parts: [{ type: "text" as const, text }]
      }))
      const messages = [...instructions, ...history.slice(0, asked + 1).filter(({ role }) => role !== "tool")]
      const items = messages.map(({ parts, role }, index) => messageOf(`${chatId(plan_id)}-${index}`, role, parts))
      return yield* Effect.mapError(Effect.fromOption(ItemPage.make(items, { order: "asc", ...query })), () =>
        invalid([{ path: "after", message: "Expected the id of a message" }])
      )
    }),
    /** A page of them, the oldest one first unless the query says otherwise. */
    list: Effect.fnUntraced(function* (caller: CallerName, query: ListQuery) {
      const { after, limit = 20, metadata = [], model, order = "asc" } = query
      const behind = after === undefined ? undefined : Option.getOrUndefined(planOf(after))
      if (after !== undefined) {
        const unknown = invalid([{ path: "after", message: "Expected the id of one of your completions" }])
        if (behind === undefined) return yield* unknown
        yield* Effect.catchTag(store.get(caller, behind), "NotFound", () => Effect.fail(unknown))
      }
      const { items, next } = yield* store.list(
        caller,
        {
          echo: { type, metadata, ...(model !== undefined && { model }) },
          states: ["completed"],
          ...(behind !== undefined && { behind })
        },
        { limit, oldestFirst: order === "asc" }
      )
      // One that is deleted meanwhile is left out.
      const found = yield* Effect.forEach(
        items,
        ({ plan_id }) => Effect.catchTag(Effect.asSome(read(caller, plan_id)), "NotFound", () => Effect.succeedNone),
        { concurrency }
      )
      const [first, last] = [items[0], items.at(-1)]
      return {
        object: "list" as const,
        data: found.flatMap(Option.toArray),
        first_id: first === undefined ? null : chatId(first.plan_id),
        last_id: last === undefined ? null : chatId(last.plan_id),
        has_more: next !== null
      }
    })
  }
})
