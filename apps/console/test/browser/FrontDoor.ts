import * as TcpProxy from "@bowline/testing/unstable/http/TcpProxy"
import { Effect } from "effect"

/** A gateway behind one address that stays when the gateway is killed and another one takes its place, and that a test can put in trouble. */
export const open = Effect.fnUntraced(function* (gatewayUrl: string) {
  const { port, turnTo, ...trouble } = yield* TcpProxy.proxy(new URL(gatewayUrl))
  return { ...trouble, url: `http://127.0.0.1:${port}`, turnTo: (url: string) => turnTo(new URL(url)) }
})
