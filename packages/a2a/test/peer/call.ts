import { Agent } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import {
  PeerClient,
  type OpenTask,
  type PeerCall,
  type PeerEvent,
  type PeerResult
} from "@bowline/runtime/remote/PeerClient"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Effect, Fiber, Layer, Schema } from "effect"
import * as A2aPeerClient from "../../src/peer/A2aPeerClient.ts"

/** The client and the hosts that it reaches, in memory. */
export const memory = A2aPeerClient.layer.pipe(Layer.provideMerge(MemoryNetwork.layer))

/** A client of its own, as another process has it: it reaches the same hosts, and remembers nothing. */
export const anotherClient = Layer.build(Layer.fresh(A2aPeerClient.layer))

export const taskId = TaskId.make("00000000-0000-4000-8000-000000000001")

type Fields = Partial<typeof Agent.Encoded>

/** A question to a peer at this URL, in A2A 0.3 unless the fields of the agent say otherwise. */
export const question = (url: string, fields: Fields = {}, call: Partial<PeerCall> = {}): PeerCall => ({
  agent: Schema.decodeUnknownSync(Agent)({ name: "peer", endpoint: `${url}/`, dialect: "a2a-0.3", ...fields }),
  skill: { id: "ask" },
  taskId,
  input: { input: "What is a bowline?" },
  continues: null,
  route: { hops: 1, via: ["gateway"] },
  ...call
})

export interface StartedCall {
  readonly fiber: Fiber.Fiber<PeerResult, PeerError>
  /** What has been told so far. */
  readonly events: ReadonlyArray<PeerEvent>
}

/** `meanwhile` is what its owner does with every event. */
export const start = Effect.fnUntraced(function* (
  call: PeerCall,
  meanwhile: () => Effect.Effect<void> = () => Effect.void
) {
  const client = yield* PeerClient
  const events: Array<PeerEvent> = []
  const onEvent = (event: PeerEvent) =>
    Effect.andThen(
      Effect.sync(() => events.push(event)),
      meanwhile()
    )
  const started: StartedCall = {
    fiber: yield* Effect.forkChild(client.call(call, onEvent), { startImmediately: true }),
    events
  }
  return started
})

/** The remote task that was told to have been accepted. */
export const openTask = ({ events }: Pick<StartedCall, "events">): OpenTask => {
  const accepted = events.findLast((event) => event._tag === "Accepted")
  if (accepted === undefined || accepted.remoteTaskId === null) throw new Error("No task was accepted")
  return { taskId: accepted.remoteTaskId, contextId: accepted.remoteContextId }
}

/** A call that has to fail: its reason. */
export const reasonOf = ({ fiber }: StartedCall) => Effect.map(Effect.flip(Fiber.join(fiber)), ({ reason }) => reason)
