import type { PlanId } from "@bowline/domain/plan/Plan"
import { type ReplicaClient, Refused, type Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Data, Effect, type Schema } from "effect"
import type { IncomingMessage } from "node:http"
import { acceptedRpc, decodeQuestion, onBlocks, resultOf } from "./Answers.ts"
import { decodeTask, decodeUpdate, hear, type HeardCancel, type HeardTask, isOver, newTask, update } from "./A2aTask.ts"
import type { Wire } from "./MemoryServer.ts"

type Start = ReplicaClient["Service"]["start"]
type Audience = Parameters<Start>[1]

const headers = { "content-type": "application/json", "a2a-version": "1.0" }

const nothing = () => Effect.void

/** The client has dropped its connection behind an event with an id. */
class Dropped extends Data.TaggedError("Dropped") {}

/** Asks as a client of A2A 1.0 does. What comes shows only that the connection lives: behind the end of its task the caller reads the plan. */
export const make = (
  site: Site,
  wire: Wire["Service"],
  { cancels, tasks: all }: { readonly tasks: Array<HeardTask>; readonly cancels: Array<HeardCancel> },
  read: ReplicaClient["Service"]["read"]
) => {
  let count = 0
  const drops = site.world.random.of(`drops at ${site.process.name}`)
  const call = (method: string, params: Schema.Json, more: Readonly<Record<string, string>> = {}) =>
    wire.ask(
      { method: "POST", path: "/a2a", headers: { ...headers, ...more } },
      JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })
    )

  const messageOf = ({ body, key }: Parameters<Start>[0], more = {}) => {
    const { agents, mcp_servers, question, session_id, ...asked } = decodeQuestion(body)
    const preferences = { ...asked.preferences, ...more }
    return {
      messageId: key ?? `message-${count++}`,
      contextId: session_id,
      role: "ROLE_USER",
      parts: [{ text: question }],
      metadata: { bowline: { agents, mcp_servers, preferences, idempotent: key !== undefined } }
    }
  }

  /** Reads a stream to its end, or up to so many events with an id. */
  const follow = (answer: IncomingMessage, heard: HeardTask, { begin, take }: Audience, most = Infinity) => {
    let seen = 0
    return onBlocks(answer, (blocks) =>
      Effect.gen(function* () {
        const isNew = heard.plan === undefined
        for (const block of blocks) {
          if (hear(heard, block, site) && ++seen >= most) return yield* new Dropped()
        }
        if (isNew && heard.plan !== undefined) yield* begin(heard.plan)
        yield* take(["ping"])
      })
    )
  }

  /** Reads the stream of a task, and comes back a few times for what is behind the last event. */
  const subscribe = (id: PlanId, heard: HeardTask, audience: Audience) =>
    Effect.gen(function* () {
      for (let left = drops.int(0, 2), isOpen = true; isOpen; left--) {
        const isBack = heard.seq > 0
        const answer = call("SubscribeToTask", { id }, isBack ? { "last-event-id": String(heard.seq) } : {})
        isOpen = yield* answer.pipe(
          Effect.flatMap(acceptedRpc),
          Effect.flatMap((stream) => {
            if (!isBack) all.push(heard)
            return follow(stream, heard, audience, left > 0 ? drops.int(1, 8) : Infinity)
          }),
          Effect.as(false),
          Effect.catchTag("Dropped", () => Effect.succeed(true)),
          Effect.scoped
        )
      }
    })

  const close = (heard: HeardTask, { take }: Audience) => {
    heard.isClosed = true
    return heard.plan !== undefined && isOver(heard) ? read(heard.plan, 0, { begin: nothing, take }) : Effect.void
  }

  /** Sends a message, and reads the stream of its task. */
  const streamed: Start = (question, audience) =>
    Effect.gen(function* () {
      const answer = yield* acceptedRpc(yield* call("SendStreamingMessage", { message: messageOf(question) }))
      const heard = newTask()
      all.push(heard)
      yield* Effect.catchTag(follow(answer, heard, audience), "Dropped", Effect.die)
      yield* close(heard, audience)
    }).pipe(Effect.scoped)

  /** Sends a message, and waits for its task. */
  const sent: Start = (question, audience) =>
    Effect.gen(function* () {
      const answer = yield* call("SendMessage", { message: messageOf(question) })
      const heard = newTask(Infinity)
      update(heard, decodeUpdate(yield* resultOf(answer)))
      all.push(heard)
      if (heard.plan !== undefined) yield* audience.begin(heard.plan)
      yield* close(heard, audience)
    }).pipe(Effect.scoped)

  /** The task as a whole. */
  const get = (plan: PlanId) => Effect.map(Effect.flatMap(call("GetTask", { id: plan }), resultOf), decodeTask)

  /** Sends a message without waiting, and subscribes to its task. Behind the end it gets the task once more. */
  const subscribed: Start = (question, audience) =>
    Effect.gen(function* () {
      // The answer is all that is sent over this connection: the task goes on behind it.
      const message = messageOf(question, { on_disconnect: "continue" })
      const answer = yield* call("SendMessage", { message, configuration: { returnImmediately: true } })
      const { task } = decodeUpdate(yield* resultOf(answer))
      if (task === undefined) return yield* Effect.die("The answer has no task")
      const heard = { ...newTask(), plan: task.id }
      yield* audience.begin(task.id)
      yield* subscribe(task.id, heard, audience).pipe(
        // It is over already.
        Effect.catchIf(
          (error) => error instanceof Refused && error.code.startsWith("-32004"),
          () => Effect.void
        )
      )
      if (heard.broken === undefined && (heard.state === "" || isOver(heard))) {
        const whole = newTask(Infinity)
        update(whole, { task: yield* get(task.id) })
        whole.isClosed = true
        all.push(whole)
        if (heard.state !== "" && heard.state !== whole.state) {
          return yield* Effect.die(`${task.id} is ${heard.state} in its stream, and ${whole.state} behind it`)
        }
        heard.state = whole.state
      }
      yield* close(heard, audience)
    }).pipe(Effect.scoped)

  return {
    streamed,
    sent,
    subscribed,
    cancel: (plan: PlanId) =>
      Effect.gen(function* () {
        const told = (isCancelled: boolean) => void cancels.push({ plan, isCancelled, at: site.world.now })
        const answer = yield* call("CancelTask", { id: plan })
        const { status } = decodeTask(
          yield* Effect.tapError(resultOf(answer), (error) =>
            Effect.sync(() => {
              if (error instanceof Refused && error.code.startsWith("-32002")) told(false)
            })
          )
        )
        told(status.state === "TASK_STATE_CANCELED")
      }).pipe(Effect.scoped)
  }
}
