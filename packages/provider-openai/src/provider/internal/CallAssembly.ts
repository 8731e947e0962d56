import type { ProviderPart } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"

type ToolCall = Extract<ProviderPart, { readonly _tag: "ToolCall" }>

interface Slot {
  readonly index: number | undefined
  id: string
  name: string
  arguments: string
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/**
 * Puts the calls of an answer together from their fragments, by index. Name and id may come only once, or with every
 * fragment; another id under the same index is another call, since some servers give every call the index 0.
 */
export class CallAssembly {
  readonly #slots: Array<Slot> = []

  get isEmpty(): boolean {
    return this.#slots.length === 0
  }

  /** Whether it is a fragment at all. */
  add(fragment: unknown): boolean {
    if (!Predicate.isObject(fragment)) return false
    const written = fragment["function"] ?? {}
    if (!Predicate.isObject(written)) return false
    const given = written["arguments"]
    const slot = this.#slotOf(fragment["index"], text(fragment["id"]))
    slot.id ||= text(fragment["id"])
    slot.name ||= text(written["name"])
    slot.arguments += Predicate.isObject(given) ? JSON.stringify(given) : text(given)
    return true
  }

  #slotOf(at: unknown, id: string): Slot {
    const index = typeof at === "number" ? at : undefined
    const slot =
      index === undefined && id !== ""
        ? this.#slots.findLast((known) => known.id === id)
        : this.#slots.findLast((known) => index === undefined || known.index === index)
    if (slot !== undefined && (id === "" || slot.id === "" || slot.id === id)) return slot
    const fresh: Slot = { index, id: "", name: "", arguments: "" }
    this.#slots.push(fresh)
    return fresh
  }

  /** The calls, each with an id of its own. One without a name cannot be made; one that is there twice is one. */
  finish(): ReadonlyArray<ToolCall> {
    const calls = new Map<string, ToolCall>()
    for (const { id, name, arguments: args } of this.#slots) {
      if (name === "") continue
      const twin = calls.get(id)
      if (twin?.name === name && twin.arguments === args) continue
      const own = id === "" || twin !== undefined ? this.#freshId(calls) : id
      calls.set(own, { _tag: "ToolCall", id: own, name, arguments: args })
    }
    return Array.from(calls.values())
  }

  #freshId(calls: ReadonlyMap<string, ToolCall>): string {
    let number = calls.size
    const isTaken = (id: string) => calls.has(id) || this.#slots.some((slot) => slot.id === id)
    while (isTaken(`call_${number}`)) number++
    return `call_${number}`
  }
}
