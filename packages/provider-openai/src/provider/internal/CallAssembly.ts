import { withOwnIds } from "@bowline/runtime/unstable/provider/CallIds"
import type { CallDropped, ToolCall } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"

interface Slot {
  readonly index: number | undefined
  id: string
  name: string
  arguments: string
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/**
 * Assembles the calls of an answer from their fragments, by index. Name and id may come only once, or with every fragment.
 * Another id under the same index is another call: some servers give every call the index 0.
 */
export class CallAssembly {
  readonly #slots: Array<Slot> = []

  get isEmpty(): boolean {
    return this.#slots.length === 0
  }

  /** Gives the number of the call that the fragment belongs to, and its piece of the arguments; undefined if it is not a fragment. */
  add(fragment: unknown): { readonly call: number; readonly piece: string } | undefined {
    if (!Predicate.isObject(fragment)) return undefined
    const written = fragment["function"] ?? {}
    if (!Predicate.isObject(written)) return undefined
    const given = written["arguments"]
    const slot = this.#slotOf(fragment["index"], text(fragment["id"]))
    slot.id ||= text(fragment["id"])
    slot.name ||= text(written["name"])
    const piece = Predicate.isObject(given) ? JSON.stringify(given) : text(given)
    slot.arguments += piece
    return { call: this.#slots.indexOf(slot), piece }
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

  finish(): ReadonlyArray<ToolCall | CallDropped> {
    return withOwnIds(this.#slots.map((slot, call) => ({ ...slot, call })))
  }
}
