import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import type { Peer } from "@bowline/protocol/peer/PeersApi"
import { PeerClient, type PeerStatus } from "@bowline/runtime/peer/PeerClient"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Admins from "../http/Admins.ts"
import { answer } from "../http/Refusals.ts"

const toPeer = ({ endpoint, dialect, card, breaker }: PeerStatus): Peer => ({
  endpoint,
  dialect,
  card: card === null ? null : { name: card.name, fetched_at: fromMillis(card.fetchedAt) },
  breaker: {
    state: breaker.state,
    open_until: breaker.openUntil === null ? null : fromMillis(breaker.openUntil)
  }
})

/** What this process knows of peers, for callers that are admins. */
export const layer = HttpApiBuilder.group(
  Api,
  "peers",
  Effect.fnUntraced(function* (handlers) {
    const client = yield* PeerClient
    const onlyAdmins = yield* Admins.only

    return handlers.handleAll({
      list: () =>
        onlyAdmins.pipe(
          Effect.andThen(client.peers),
          Effect.map((peers) => ({ peers: peers.map(toPeer) })),
          answer
        )
    })
  })
)
