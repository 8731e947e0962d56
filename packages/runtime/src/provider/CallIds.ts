import type { CallDropped, ToolCall } from "./Provider.ts"

/** A call as the provider wrote it; without an id or a name these are empty. */
type WrittenCall = Omit<ToolCall, "_tag">

/** The calls, each with an id of its own. One without a name cannot be made; one that is there twice is one. */
export const withOwnIds = (written: ReadonlyArray<WrittenCall>): ReadonlyArray<ToolCall | CallDropped> => {
  const dropped: Array<CallDropped> = []
  const calls = new Map<string, ToolCall>()
  for (const { call, id, name, arguments: args } of written) {
    if (name === "") {
      dropped.push({ _tag: "CallDropped", reason: "it had no name" })
      continue
    }
    const twin = calls.get(id)
    if (twin?.name === name && twin.arguments === args) continue
    const own = id === "" || twin !== undefined ? freshId(calls, written) : id
    calls.set(own, { _tag: "ToolCall", call, id: own, name, arguments: args })
  }
  return [...calls.values(), ...dropped]
}

const freshId = (calls: ReadonlyMap<string, ToolCall>, written: ReadonlyArray<WrittenCall>): string => {
  let number = calls.size
  const isTaken = (id: string) => calls.has(id) || written.some((call) => call.id === id)
  while (isTaken(`call_${number}`)) number++
  return `call_${number}`
}
