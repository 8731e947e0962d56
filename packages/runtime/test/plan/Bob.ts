import { callTool } from "@bowline/testing/provider/Turn"
import type { seen } from "@bowline/testing/unstable/TestKit"
import { Clock, Effect } from "effect"
import type { PeerClient } from "../../src/remote/PeerClient.ts"

/** An agent with one skill, and a provider's turn that calls it. */
export const bob = { name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }
export const askBob = [callTool("bob_ask", { input: "hi" })]

/** Peers that never answer, and remember when they were let go. */
export const stuckPeers = () => {
  const interruptedAt: Array<number> = []
  const call: PeerClient["Service"]["call"] = (_, onEvent) =>
    onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: "context-1" }).pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => Effect.map(Clock.currentTimeMillis, (now) => void interruptedAt.push(now)))
    )
  return { interruptedAt, peers: { call } }
}

export const names = (events: ReturnType<typeof seen>) =>
  events.map((event) => (typeof event === "string" ? event : event.event))
