import type { Dialect } from "@bowline/domain/peer/Agent"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Clock, Effect, Option, Result, Stream, SubscriptionRef, type Scope } from "effect"
import { json, text, type Fault, type Host, type HostRequest, type HostResponse } from "../http/Host.ts"
import { Network } from "../http/Network.ts"
import type { RequestLog } from "../http/RequestLog.ts"
import type { Act } from "./Act.ts"
import { cardOf, cardPath, type CardMembers } from "./internal/ScriptedCard.ts"
import { answer, Responder } from "./internal/Responder.ts"
import { readRequest, type Method, type TaskIdName } from "./internal/StrictRequest.ts"
import { noted, nothing, type ReceivedSend, type Seen } from "./Seen.ts"
import type { Trouble } from "./Trouble.ts"

export type { CardMembers, Method, ReceivedSend, Seen, TaskIdName, Trouble }

/** How a scripted peer behaves. */
export interface PeerScript {
  /** `a2a-0.3`, unless it says otherwise. */
  readonly dialect?: Dialect
  /** The port that it wants, where the network has ports. It gets another one if this one is taken. */
  readonly port?: number
  /** Where it takes requests: `/`, unless it says otherwise. */
  readonly path?: string
  /** Members that go over those of the card. `none`: there is no card. */
  readonly card?: CardMembers | "none"
  /** The bearer token that it requires. */
  readonly token?: string
  /** The one name of the parameter for a task that it understands: `id`, or `taskId` in bindu. */
  readonly taskIdName?: TaskIdName
  /** Whether it streams, and its card says so. One that does not refuses to. */
  readonly streams?: boolean
  /** A cancelled task is `canceled`, unless the peer ignores it. */
  readonly onCancel?: "obey" | "ignore"
  /** What it does with a message, from the moment when the message arrives. */
  readonly acts: ReadonlyArray<Act> | ((send: ReceivedSend) => ReadonlyArray<Act>)
}

/** The requests that trouble can be made for, by their names in A2A 0.3. */
export type Target = "card" | Method

/** A scripted peer that is served, and what a test can see of it. */
export interface ScriptedPeer {
  /** The origin that it is served at, without a slash at the end. */
  readonly url: string
  /** Every request that reached it, also those that it refused. */
  readonly requests: RequestLog
  /** What it has seen so far. */
  readonly seen: Effect.Effect<Seen>
  /** Waits until it has seen that much. */
  readonly awaitSeen: (predicate: (seen: Seen) => boolean) => Effect.Effect<Seen>
  /** Waits for the first cancel: the id of its task. */
  readonly cancelled: Effect.Effect<string>
  /** Queues troubles for the next requests, one for each. */
  readonly disturb: (target: Target, ...troubles: ReadonlyArray<Trouble>) => Effect.Effect<void>
}

/**
 * Serves a peer that speaks exactly its dialect and refuses any other request. A task goes through its acts on the `Clock`, from
 * the moment when its message arrives.
 *
 * @example
 * ```ts
 * import { says, stuck } from "@bowline/testing/peer/Act"
 * import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
 * import { Effect } from "effect"
 *
 * // A peer that never ends its task; resolves with the id that a plan has cancelled.
 * export const cancelled = Effect.gen(function* () {
 *   const peer = yield* ScriptedPeer.serve({ dialect: "a2a-1.0", acts: [says("Wait …"), stuck] })
 *   return yield* peer.cancelled
 * })
 * ```
 */
export const serve = Effect.fnUntraced(function* (
  script: PeerScript
): Effect.fn.Return<ScriptedPeer, never, Network | Scope.Scope> {
  const { acts, card = {}, dialect = "a2a-0.3", onCancel = "obey", path = "/", port, streams = false, token } = script
  const taskIdName = script.taskIdName ?? (dialect === "bindu" ? "taskId" : "id")
  const seen = yield* SubscriptionRef.make(nothing)
  const responder = new Responder({
    dialect,
    streams,
    obeysCancel: onCancel === "obey",
    acts,
    uuid: yield* UuidGenerator
  })
  const troubles = new Map<Target, Array<Trouble>>()

  const troubled = (target: Target, answer: () => HostResponse): Effect.Effect<HostResponse, Fault> =>
    Effect.suspend(() => {
      const trouble = troubles.get(target)?.shift()
      if (trouble === undefined) return Effect.sync(answer)
      return trouble.when === "instead" ? Effect.succeed(trouble.answer) : trouble.spoil(answer())
    })

  const answerCall = Effect.fnUntraced(function* (incoming: HostRequest) {
    const now = yield* Clock.currentTimeMillis
    const { id, request } = readRequest(dialect, taskIdName, incoming)
    const call = Result.flatMap(request, (request) => responder.callOf(request, incoming.headers, now))
    yield* SubscriptionRef.update(seen, noted(call))
    if (Result.isFailure(call)) return answer(id, Result.fail(call.failure))
    return yield* troubled(call.success.method, () => responder.handle(call.success, id, now))
  })

  const refuse = (status: number, why: string) =>
    Effect.as(
      SubscriptionRef.update(seen, (seen) => ({ ...seen, refused: [...seen.refused, why] })),
      text(status, why)
    )

  const host: Host = (request) => {
    const { headers, method, url } = request
    if (method === "GET" && url.pathname === cardPath[dialect]) {
      return troubled("card", () =>
        card === "none" ? text(404, "") : json(200, cardOf({ dialect, streams, url: `${url.origin}${path}` }, card))
      )
    }
    // Clients also look for a card in the place of the other dialect.
    if (method === "GET") return Effect.succeed(text(404, ""))
    if (method !== "POST" || url.pathname !== path) return refuse(404, `There is no ${method} ${url.pathname}`)
    if (headers["content-type"] !== "application/json") return refuse(415, "Expected application/json")
    if (token !== undefined && headers["authorization"] !== `Bearer ${token}`) return refuse(401, "Unknown token")
    return answerCall(request)
  }

  const { requests, url } = yield* Effect.flatMap(Network, (network) => network.serve(host, port))
  const awaitSeen = (predicate: (seen: Seen) => boolean) =>
    SubscriptionRef.changes(seen).pipe(
      Stream.filter(predicate),
      Stream.runHead,
      Effect.flatMap(Effect.fromOption),
      Effect.orDie
    )
  return {
    url,
    requests,
    seen: SubscriptionRef.get(seen),
    awaitSeen,
    cancelled: Effect.map(
      awaitSeen(({ cancels }) => cancels.length > 0),
      ({ cancels }) => Option.getOrThrow(Option.fromNullishOr(cancels[0]))
    ),
    disturb: (target, ...more) =>
      Effect.sync(() => void troubles.set(target, [...(troubles.get(target) ?? []), ...more]))
  }
})
