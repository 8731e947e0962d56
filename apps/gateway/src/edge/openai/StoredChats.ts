import type { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, Option, Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import { ChatAnswer } from "./ChatAnswer.ts"
import { ChatLeg } from "./ChatLeg.ts"
import { chatId } from "./ChatChunks.ts"

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

/** How many completions of a page are read at once: each of them is one row. */
const concurrency = 8

/** Reads the completions that their callers wanted to be stored, once they are whole. Each follows from its plan. */
export const make = Effect.gen(function* () {
  const store = yield* PlanStore

  const read = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId) {
    const told = yield* Effect.catchTag(store.told(caller, plan_id), "NotFound", () => Effect.fail(missing))
    const { created, metadata, model } = yield* Effect.mapError(Effect.fromOption(decodeEcho(told.echo)), () => missing)
    const { final } = told.plan
    if (final === null) return yield* missing
    const answer = new ChatAnswer(new ChatLeg())
    for (const event of (yield* PlanGist.read(store, told)).events) answer.tell(event)
    return { ...answer.completion({ plan_id, created, model }, final), metadata }
  })

  const find = Effect.fnUntraced(function* (caller: CallerName, id: string) {
    const plan_id = yield* Effect.mapError(Effect.fromOption(planOf(id)), () => missing)
    return { plan_id, completion: yield* read(caller, plan_id) }
  })

  return {
    /** The completion of this id. One that is not over, failed, or was not to be stored is not found. */
    find,
    /** A page of them, the newest one first. */
    list: Effect.fnUntraced(function* (
      caller: CallerName,
      query: { readonly after?: string; readonly limit?: number }
    ) {
      const { after, limit = 20 } = query
      const before = after === undefined ? undefined : Option.getOrUndefined(planOf(after))
      if (after !== undefined && before === undefined) {
        return yield* invalid([{ path: "after", message: "Expected the id of a completion" }])
      }
      const filter = { echo: type, states: ["completed" as const], ...(before !== undefined && { before }) }
      const { items, next } = yield* store.list(caller, filter, { limit })
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
