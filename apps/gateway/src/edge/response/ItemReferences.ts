import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Effect, Option, Predicate, type Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import { inputId, planOfText, responseId } from "./ResponseItems.ts"
import type { StoredResponses } from "./StoredResponses.ts"

type Messages = ReadonlyMap<string, Schema.Json | object>

/** What a request names, and is not there. */
export const missing = (path: string, what: string) => invalid([{ path, message: `There is no such ${what}` }])

const isReference = (item: unknown): item is { readonly id: unknown } =>
  Predicate.isObject(item) && Predicate.hasProperty(item, "id") && "type" in item && item.type === "item_reference"

/**
 * Puts the messages of earlier responses in the place of references to them, as clients send that keep the history by the ids of its items.
 * Other items that are referred to, such as reasoning, stay as they are.
 */
export const make = (stored: StoredResponses) => {
  const messagesOf = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId) {
    const { echo, events } = yield* stored.find(caller, responseId({ plan_id, leg: 1 }))
    const asked = echo.input.map((item, index) => [inputId(plan_id, index), item] as const)
    return new Map<string, Schema.Json | object>([...asked, ...events.items.map((item) => [item.id, item] as const)])
  })

  return Effect.fnUntraced(function* (caller: CallerName, body: Readonly<Record<string, unknown>>) {
    const { input } = body
    if (!Array.isArray(input) || !input.some(isReference)) return body
    const known = new Map<PlanId, Messages>()
    const resolve = Effect.fnUntraced(function* (item: unknown, index: number) {
      const plan = isReference(item) && typeof item.id === "string" ? planOfText(item.id) : Option.none()
      if (!isReference(item) || Option.isNone(plan)) return item
      const absent = missing(`input[${index}].id`, "item")
      const messages =
        known.get(plan.value) ??
        (yield* Effect.catchTag(messagesOf(caller, plan.value), "NotFound", () => Effect.fail(absent)))
      known.set(plan.value, messages)
      return messages.get(String(item.id)) ?? (yield* absent)
    })
    return { ...body, input: yield* Effect.forEach(input, resolve) }
  })
}
