import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/client"

const idOfReply = (message: JSONRPCMessage): RequestId | undefined => ("method" in message ? undefined : message.id)

/**
 * Has one reply at a time leave for the server. A server that asks on meanwhile gets none: it could make the gateway open as many connections,
 * or keep as many lines, as it likes. Those that the returned function names leave in any case.
 */
export const limitReplies = (transport: Transport): ((id: RequestId) => void) => {
  const send = transport.send.bind(transport)
  const expected = new Set<RequestId>()
  let isReplying = false
  const limited: Transport["send"] = async (message, options) => {
    const id = idOfReply(message)
    if (id === undefined || expected.delete(id)) return send(message, options)
    if (isReplying) return
    isReplying = true
    await send(message, options).finally(() => (isReplying = false))
  }
  Object.assign(transport, { send: limited })
  return (id) => void expected.add(id)
}
