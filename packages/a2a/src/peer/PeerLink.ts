import type { Dialect } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import type { PeerCall } from "@bowline/runtime/peer/PeerClient"
import { Effect } from "effect"
import type { PeerAuths } from "../auth/PeerAuth.ts"
import { dialectOf, takesTextOnly, urlOf } from "../card/AgentCard.ts"
import type { FoundCard } from "../card/AgentCards.ts"
import { a2a03 } from "../dialect/A2a03.ts"
import { a2a10 } from "../dialect/A2a10.ts"
import { bindu } from "../dialect/Bindu.ts"
import type { Codec } from "../dialect/Codec.ts"
import type { ExchangeError } from "../http/ExchangeError.ts"
import type { RpcTarget } from "../http/JsonRpc.ts"

/** How to speak to a peer during one call. It stays the same until the call ends. */
export interface PeerLink {
  /** The endpoint as it is configured: what is remembered of a peer is remembered under it. */
  readonly endpoint: string
  readonly target: RpcTarget
  readonly codec: Codec
  readonly takesTextOnly: (skillId: string) => boolean
  /** Whether the peer answers with a stream. */
  readonly streams: boolean
}

const codecs: { readonly [D in Dialect]: Codec } = { "a2a-1.0": a2a10, "a2a-0.3": a2a03, bindu }

const fromCard =
  (endpoint: string) =>
  ({ card, location }: FoundCard): Omit<PeerLink, "endpoint" | "target" | "streams"> & { readonly url: string } => ({
    url: urlOf(card, endpoint),
    codec: codecs[dialectOf(card, location)],
    takesTextOnly: (skillId) => takesTextOnly(card, skillId)
  })

/** Finds out how to speak to a peer. With `auto` its card says so; a peer without a card speaks A2A 0.3. */
export const connect = Effect.fnUntraced(function* (
  { agent: { auth, dialect, endpoint, streaming }, route }: PeerCall,
  cards: { readonly get: (endpoint: string) => Effect.Effect<FoundCard, PeerError> },
  auths: PeerAuths
): Effect.fn.Return<PeerLink, ExchangeError> {
  const peerAuth = yield* auths.forAgent(auth)
  const fixed = (dialect: Dialect) => ({ url: endpoint, codec: codecs[dialect], takesTextOnly: () => false })
  const { url, ...rest } =
    dialect === "auto"
      ? yield* Effect.match(cards.get(endpoint), { onSuccess: fromCard(endpoint), onFailure: () => fixed("a2a-0.3") })
      : fixed(dialect)
  const headers = {
    ...rest.codec.headers,
    "x-bowline-hops": String(route.hops),
    "x-bowline-via": route.via.join(",")
  }
  return { endpoint, target: { url, headers, auth: peerAuth }, streams: streaming ?? false, ...rest }
})
