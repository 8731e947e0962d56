import type { CallDropped, ToolCall } from "./Provider.ts"

/** A call as the provider wrote it. An id or a name that it left out is empty. */
type WrittenCall = Omit<ToolCall, "_tag">

/** Gives each call an id of its own. Drops calls without a name, and the second of two equal ones. */
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
