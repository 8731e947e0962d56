import { PeerError } from "@bowline/domain/peer/PeerError"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import { PeerClient, type PeerEvent } from "@bowline/runtime/remote/PeerClient"
import { Cause, Duration, Effect, Exit, Layer, Option } from "effect"
import { HttpClient } from "effect/http"
import * as PeerAuth from "@bowline/runtime/unstable/auth/PeerAuth"
import { didOf, skillsOf } from "../card/AgentCard.ts"
import * as AgentCards from "../card/AgentCards.ts"
import * as Verification from "../identity/Verification.ts"
import { withoutWords } from "../identity/Withheld.ts"
import * as Breakers from "./Breakers.ts"
import * as Cancels from "./Cancels.ts"
import { runCall } from "./RunningCall.ts"
import { Disclosure } from "./Disclosure.ts"
import { answerLimit } from "./Polling.ts"
import * as PeerLink from "./PeerLink.ts"
import { RemoteTask } from "./RemoteTask.ts"
import * as PeerCalls from "./PeerCalls.ts"

/** How long a cancel waits for a card. The rest of its 5 seconds is for the cancel itself. */
const cancelCardLimit = Duration.seconds(3)

/** Whoever makes the call resumes its task when the account is there, or has it cancelled. */
const lacksAccount = (cause: Cause.Cause<PeerError>): boolean =>
  Option.exists(Cause.findErrorOption(cause), ({ reason }) => reason._tag === "account_required")

/**
 * Peers over JSON-RPC, in A2A 1.0, A2A 0.3 and bindu. The HTTP client must not follow redirects by itself. Ids come from
 * `UuidGenerator`, the variables with tokens from `EnvironmentSecrets`, and the key that signs requests from
 * `GatewayIdentity`. Closing the layer waits for the cancels that are still running, 5 seconds at most.
 */
export const layer: Layer.Layer<PeerClient, never, HttpClient.HttpClient> = Layer.effect(
  PeerClient,
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const uuid = yield* UuidGenerator
    const auths = yield* PeerAuth.make(client)
    const cards = yield* AgentCards.make(client)
    const links = PeerLink.make(cards, auths)
    const calls = PeerCalls.make(client, uuid)
    const cancels = yield* Cancels.make(calls)
    const verification = yield* Verification.make(client)
    const breakers = yield* Breakers.make

    const cancelTask = (peer: PeerLink.Contact, taskId: string) =>
      cancels.cancel(peer.agent.endpoint, links.connect(peer, cancelCardLimit), taskId)

    return PeerClient.of({
      peers: Effect.map(breakers.all, (all) =>
        all.map((known) => ({ ...known, ...links.known(known.endpoint), endpoint: UrlSecrets.without(known.endpoint) }))
      ),
      discover: Effect.fnUntraced(function* ({ endpoint }) {
        const refusal = yield* breakers.refusal(endpoint)
        const known = refusal === undefined ? undefined : cards.last(endpoint)
        if (refusal !== undefined && known === undefined) return yield* new PeerError({ reason: refusal })
        const asked = Effect.mapError(cards.get(endpoint), ({ reason }) => new PeerError({ reason }))
        const { card } = known ?? (yield* asked)
        return { skills: skillsOf(card), description: card.description ?? null, did: didOf(card) }
      }),
      call: Effect.fnUntraced(function* (call, onEvent) {
        const { agent, continues, isHandedOver, resumes, route } = call
        const peer = { agent, continues: resumes ?? continues, route }
        // A resumed task is open from the start: it is cancelled also where no link to the peer can be made.
        let dropRequest = Effect.void
        let cancelOpenTask = () => (resumes === undefined ? Effect.void : cancelTask(peer, resumes.taskId))
        const talk = Effect.fnUntraced(
          function* (onEvent: (event: PeerEvent) => Effect.Effect<void>) {
            const link = yield* links.connect(peer, resumes && answerLimit)
            const remote = new RemoteTask(link, calls, call)
            cancelOpenTask = () => cancels.cancelOpen(link, remote)
            dropRequest = remote.drop
            const known = continues ?? { taskId: null, contextId: agent.context_id ?? null }
            const disclosure = new Disclosure(link.target.auth.redaction, onEvent)
            return yield* runCall({ call, link, remote, ids: link.codec.ids(known, uuid), verification, disclosure })
          },
          Effect.mapError(
            ({ reason }) => new PeerError({ reason: agent.trust?.verify_did === true ? withoutWords(reason) : reason })
          )
        )
        const talking = breakers.guard(agent.endpoint, onEvent, talk, resumes !== undefined)
        return yield* Effect.onExit(talking, (exit) => {
          // Of a question that nobody has answered in time, the task is still open.
          if (Exit.isSuccess(exit)) return exit.value.state === "timed-out" ? cancelOpenTask() : Effect.void
          if (lacksAccount(exit.cause)) return Effect.void
          return Cause.hasInterrupts(exit.cause) && isHandedOver?.() === true ? dropRequest : cancelOpenTask()
        })
      }),
      cancel: ({ agent, taskId, contextId, route }) =>
        cancelTask({ agent, continues: { taskId, contextId }, route }, taskId)
    })
  })
)
