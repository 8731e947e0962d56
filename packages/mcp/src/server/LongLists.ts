import { ResponseTooLarge } from "@bowline/domain/peer/PeerError"
import { isJSONRPCResultResponse, type JSONRPCMessage, type Transport } from "@modelcontextprotocol/client"

/** Blocks of a result, or tools of a page. The protocol's client checks each in the same turn of the event loop: 200,000 would hold it for a second. */
const maxEntries = 10_000

const tooLong = new ResponseTooLarge({ message: "An answer of the server has a list of more than 10,000 entries" })

const hasLongList = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.values(value).some((member) => Array.isArray(member) && member.length > maxEntries)

/** Of a task of 2026-07-28 the result is a member. */
const bounded = (message: JSONRPCMessage): JSONRPCMessage => {
  if (!("result" in message) || !isJSONRPCResultResponse(message)) return message
  const { id, result } = message
  if (!hasLongList(result) && !hasLongList(result["result"])) return message
  return { jsonrpc: "2.0", id, error: { code: -32_603, message: tooLong.message, data: tooLong } }
}

/** Makes an error of each answer that has too long a list, before the protocol's client looks at it. */
export const refuseLongLists = (transport: Transport): void => {
  const { onmessage: take } = transport
  const onmessage: typeof take = (message, extra) => take?.(bounded(message), extra)
  Object.assign(transport, { onmessage })
}
