import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client"

const isReply = (message: JSONRPCMessage): boolean => !("method" in message)

/**
 * Has one reply at a time leave for the server. A server that asks on meanwhile gets none: it could make the gateway open as many connections,
 * or keep as many lines, as it likes. The gateway offers servers nothing but `ping`.
 */
export const limitReplies = (transport: Transport): void => {
  const send = transport.send.bind(transport)
  let isReplying = false
  const limited: Transport["send"] = async (message, options) => {
    if (!isReply(message)) return send(message, options)
    if (isReplying) return
    isReplying = true
    await send(message, options).finally(() => (isReplying = false))
  }
  Object.assign(transport, { send: limited })
}
