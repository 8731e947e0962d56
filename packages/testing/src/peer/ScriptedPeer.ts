import type { Dialect } from "@bowline/domain/peer/Agent"
import { UuidGenerator } from "@bowline/runtime/id/UuidGenerator"
import { Clock, Effect, Option, Result, Stream, SubscriptionRef, type Scope } from "effect"
import { json, text, type Fault, type Host, type HostRequest, type HostResponse } from "../http/Host.ts"
import { Network } from "../http/Network.ts"
import type { RequestLog } from "../http/RequestLog.ts"
import type { Act } from "./Act.ts"
import { cardOf, cardPath, type CardMembers } from "./internal/AgentCard.ts"
import { readRequest, type RpcError, type SendParams, type TaskIdName } from "./internal/StrictRequest.ts"
import { TaskBook } from "./internal/TaskBook.ts"
import type { Trouble } from "./Trouble.ts"

/** A message as the peer got it. The ids are the client's where it makes them, else the peer's. */
export type ReceivedSend = SendParams & {
  readonly taskId: string
  readonly contextId: string
  readonly headers: HostRequest["headers"]
}

export interface PeerScript {
  /** `a2a-0.3`, unless it says otherwise. */
  readonly dialect?: Dialect
  /** Where it takes requests: `/`, unless it says otherwise. */
  readonly path?: string
  /** Members that go over those of the card. `none`: there is no card. */
  readonly card?: CardMembers | "none"
  /** The bearer token that it insists on. */
  readonly token?: string
  /** The one name of the parameter for a task that it understands: `id`, or `taskId` in bindu. */
  readonly taskIdName?: TaskIdName
  /** A cancelled task is `canceled`, unless the peer ignores it. */
  readonly onCancel?: "obey" | "ignore"
  /** What it does with a message. */
  readonly acts: ReadonlyArray<Act> | ((send: ReceivedSend) => ReadonlyArray<Act>)
}

/** What a peer saw, in order: messages, the tasks of polls and cancels, and what was wrong with what it refused. */
export interface Seen {
  readonly sends: ReadonlyArray<ReceivedSend>
  readonly polls: ReadonlyArray<string>
  readonly cancels: ReadonlyArray<string>
  readonly refused: ReadonlyArray<string>
}

/** The requests that trouble can be made for. */
export type Target = "card" | "message/send" | "tasks/get" | "tasks/cancel"

export interface ScriptedPeer {
  /** The origin that it is served at, without a slash at the end. */
  readonly url: string
  readonly requests: RequestLog
  readonly seen: Effect.Effect<Seen>
  /** Waits until it has seen that much. */
  readonly awaitSeen: (predicate: (seen: Seen) => boolean) => Effect.Effect<Seen>
  /** Waits for the first cancel: the id of its task. */
  readonly cancelled: Effect.Effect<string>
  /** Makes trouble for the next requests, one each, behind those that are in trouble already. */
  readonly disturb: (target: Target, ...troubles: ReadonlyArray<Trouble>) => Effect.Effect<void>
}

type Call =
  | { readonly method: "message/send"; readonly send: ReceivedSend }
  | { readonly method: "tasks/get" | "tasks/cancel"; readonly taskId: string }

const nothing: Seen = { sends: [], polls: [], cancels: [], refused: [] }

const noted =
  (call: Result.Result<Call, RpcError>) =>
  (seen: Seen): Seen => {
    if (Result.isFailure(call)) return { ...seen, refused: [...seen.refused, call.failure.message] }
    switch (call.success.method) {
      case "message/send":
        return { ...seen, sends: [...seen.sends, call.success.send] }
      case "tasks/get":
        return { ...seen, polls: [...seen.polls, call.success.taskId] }
      case "tasks/cancel":
        return { ...seen, cancels: [...seen.cancels, call.success.taskId] }
    }
  }

/**
 * Serves a peer that speaks its dialect and nothing else: a request that breaks it is refused. A task goes through its acts
 * on the `Clock`, from the moment when its message came.
 */
export const serve = Effect.fnUntraced(function* (
  script: PeerScript
): Effect.fn.Return<ScriptedPeer, never, Network | Scope.Scope> {
  const { acts, card = {}, dialect = "a2a-0.3", onCancel = "obey", path = "/", token } = script
  const taskIdName = script.taskIdName ?? (dialect === "bindu" ? "taskId" : "id")
  const uuid = yield* UuidGenerator
  const seen = yield* SubscriptionRef.make(nothing)
  const tasks = new TaskBook(dialect, onCancel === "obey")
  const troubles: Record<Target, Array<Trouble>> = { card: [], "message/send": [], "tasks/get": [], "tasks/cancel": [] }

  const troubled = (target: Target, answer: () => HostResponse): Effect.Effect<HostResponse, Fault> =>
    Effect.suspend(() => {
      const trouble = troubles[target].shift()
      if (trouble === undefined) return Effect.sync(answer)
      return trouble.when === "instead" ? Effect.succeed(trouble.answer) : trouble.spoil(answer())
    })

  const handle = (call: Call, now: number): Result.Result<object, RpcError> => {
    switch (call.method) {
      case "message/send": {
        const { contextId, message, taskId } = call.send
        const played = typeof acts === "function" ? acts(call.send) : acts
        return Result.succeed(tasks.start({ id: taskId, contextId, question: message }, played, now))
      }
      case "tasks/get":
        return tasks.get(call.taskId, now)
      case "tasks/cancel":
        return tasks.cancel(call.taskId, now)
    }
  }

  const answerCall = Effect.fnUntraced(function* ({ body, headers }: HostRequest) {
    const now = yield* Clock.currentTimeMillis
    const { id, request } = readRequest(dialect, taskIdName, body)
    const call = Result.map(request, (request): Call => {
      if (request.method !== "message/send") return request
      const { message } = request.params
      const taskId = "taskId" in message ? message.taskId : uuid()
      const contextId = message.contextId ?? uuid()
      return { method: request.method, send: { ...request.params, taskId, contextId, headers } }
    })
    yield* SubscriptionRef.update(seen, noted(call))
    const reply = (result: Result.Result<object, RpcError>) =>
      json(200, {
        jsonrpc: "2.0",
        id,
        ...(Result.isSuccess(result) ? { result: result.success } : { error: result.failure })
      })
    if (Result.isFailure(call)) return reply(Result.fail(call.failure))
    return yield* troubled(call.success.method, () => reply(handle(call.success, now)))
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
        card === "none" ? text(404, "") : json(200, cardOf(dialect, `${url.origin}${path}`, card))
      )
    }
    // The other dialect's place of a card is asked for too: that is no mistake.
    if (method === "GET") return Effect.succeed(text(404, ""))
    if (method !== "POST" || url.pathname !== path) return refuse(404, `There is no ${method} ${url.pathname}`)
    if (headers["content-type"] !== "application/json") return refuse(415, "Expected application/json")
    if (token !== undefined && headers["authorization"] !== `Bearer ${token}`) return refuse(401, "Unknown token")
    return answerCall(request)
  }

  const { requests, url } = yield* Effect.flatMap(Network, (network) => network.serve(host))
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
    disturb: (target, ...more) => Effect.sync(() => void troubles[target].push(...more))
  }
})
