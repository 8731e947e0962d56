import type { Dialect } from "@bowline/domain/peer/Agent"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import { routeHeaders, type PeerCall, type PeerStatus } from "@bowline/runtime/remote/PeerClient"
import { Effect, Result, type Duration } from "effect"
import type { PeerAuths } from "@bowline/runtime/unstable/auth/PeerAuth"
import { didOf, maxPeers, takesTextOnly } from "../card/AgentCard.ts"
import type { AgentCards, FoundCard } from "../card/AgentCards.ts"
import { interfaceOf, type PeerInterface } from "../card/PeerInterface.ts"
import { a2a03 } from "../dialect/A2a03.ts"
import { a2a10 } from "../dialect/A2a10.ts"
import { bindu } from "../dialect/Bindu.ts"
import type { Codec } from "../dialect/Codec.ts"
import { isPassing, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { RpcTarget } from "../rpc/JsonRpc.ts"
import { askUntilAnswered } from "./Polling.ts"

/** How to speak to a peer. It stays the same for one call. */
export interface PeerLink {
  /** The configured endpoint: the key for everything that is remembered of a peer. */
  readonly endpoint: string
  readonly target: RpcTarget
  readonly codec: Codec
  readonly takesTextOnly: (skillId: string) => boolean
  /** Whether to ask the peer for a stream. */
  readonly streams: boolean
  /** The DID that must sign what the peer says: the pinned one, else the one on its card. */
  readonly did: string | null
}

/** What the process knows of a peer that it called. */
export type KnownPeer = Pick<PeerStatus, "dialect" | "card">

const codecs: { readonly [D in Dialect]: Codec } = { "a2a-1.0": a2a10, "a2a-0.3": a2a03, bindu }

/** An interface is a guess where the card was unavailable at that moment. */
interface Choice extends PeerInterface {
  readonly isGuess: boolean
}

/** What a link depends on. */
export type Contact = Pick<PeerCall, "agent" | "continues" | "route">

/**
 * Chooses how to speak to a peer: in the dialect that the request names, else as its card says, else as before, else in A2A
 * 0.3. A call that continues a task uses the dialect of the last call of its peer.
 */
const choose = (
  { agent: { dialect, endpoint }, continues }: Contact,
  found: FoundCard | undefined,
  before: Choice | undefined,
  mayBeFound: boolean
): Choice => {
  if (dialect === "auto" && before !== undefined && (continues !== null || found === undefined)) return before
  if (found !== undefined) {
    return { ...interfaceOf(found.card, found.location, endpoint, dialect), isGuess: false }
  }
  const isAuto = dialect === "auto"
  return { dialect: isAuto ? "a2a-0.3" : dialect, url: endpoint, tenant: undefined, isGuess: isAuto && mayBeFound }
}

/** Makes links to peers, and remembers how to speak to them in this process. */
export const make = (cards: AgentCards, auths: PeerAuths) => {
  const interfaces = new LruCache<string, Choice>(maxPeers)

  /** With a `cardLimit` a card that is needed and unavailable is requested again for so long: a guess would be final. */
  const connect = Effect.fnUntraced(function* (
    call: Contact,
    cardLimit?: Duration.Duration
  ): Effect.fn.Return<PeerLink, ExchangeError> {
    const { auth, dialect, endpoint, streaming, trust } = call.agent
    const peerAuth = yield* auths.forAgent(auth, endpoint)
    const last = interfaces.get(endpoint)
    const before = last?.isGuess === true && cardLimit !== undefined ? undefined : last
    const isCardWanted = dialect === "auto" || (trust?.verify_did === true && trust.pinned_did === undefined)
    const waits = before === undefined && cards.last(endpoint) === undefined ? cardLimit : undefined
    const ask =
      waits === undefined ? cards.get(endpoint) : askUntilAnswered(waits, (missed) => cards.get(endpoint, missed))
    const answer = isCardWanted ? yield* Effect.result(ask) : undefined
    const missed = answer !== undefined && Result.isFailure(answer) ? answer.failure : undefined
    // A peer that cannot be reached for its card cannot be asked for a task.
    if (waits !== undefined && missed?.verdict === "unsent") return yield* missed
    const found = (answer && Result.getOrUndefined(answer)) ?? cards.last(endpoint)
    const chosen = choose(call, found, before, missed !== undefined && isPassing(missed))
    interfaces.set(endpoint, chosen)
    const codec = codecs[chosen.dialect]
    const headers = { ...codec.headers, ...routeHeaders(call.route) }
    const params = chosen.tenant === undefined ? {} : { tenant: chosen.tenant }
    return {
      endpoint,
      target: { url: chosen.url, headers, params, auth: peerAuth },
      codec,
      takesTextOnly: (skillId) => found !== undefined && takesTextOnly(found.card, skillId),
      streams: streaming ?? found?.card.capabilities?.streaming ?? false,
      did: trust?.pinned_did ?? (found === undefined ? null : didOf(found.card))
    }
  })

  const known = (endpoint: string): KnownPeer => {
    const found = cards.last(endpoint)
    return {
      dialect: interfaces.get(endpoint)?.dialect ?? null,
      card: found === undefined ? null : { name: found.card.name ?? null, fetchedAt: found.fetchedAt }
    }
  }
  return { connect, known }
}
