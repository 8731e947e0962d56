import { CircuitOpen, PeerError } from "@bowline/domain/peer/PeerError"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll } from "@bowline/testing/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { PeerCall, PeerClient, PeerResult, RemoteIds } from "../../src/peer/PeerClient.ts"
import { askBob, bob } from "./Bob.ts"

type Ending = PeerResult["state"] | "circuit_open"

/** Peers that end their calls as they are told, one after the other, and remember what each was to go on with. */
const peersThat = (...endings: ReadonlyArray<Ending>) => {
  const continued: Array<RemoteIds | null> = []
  const call: PeerClient["Service"]["call"] = Effect.fnUntraced(function* ({ continues }: PeerCall, onEvent) {
    const state = endings[continued.length] ?? "completed"
    continued.push(continues)
    if (state === "circuit_open") {
      return yield* new PeerError({ reason: new CircuitOpen({ message: "Later", retryAfterMs: 1_000 }) })
    }
    const remote = `remote-${continued.length}`
    const ids = continues ?? { taskId: remote, contextId: `context of ${remote}` }
    yield* onEvent({ _tag: "Accepted", remoteTaskId: ids.taskId, remoteContextId: ids.contextId })
    return { state, content: "Which rope?", verified: "unknown" as const }
  })
  return { continued, peers: { call } }
}

const task = (number: number) => ({ taskId: `remote-${number}`, contextId: `context of remote-${number}` })

const ask = (fields: object = {}) =>
  Effect.flatMap(post({ question: "?", session_id: "s", agents: [bob], ...fields }), ({ frames }) => readAll(frames))

const steps = (count: number) => Array.from({ length: count }, () => [askBob, [say("ok")]]).flat()

describe("a task that a peer hands back", () => {
  for (const state of ["input-required", "auth-required", "payment-required", "trust-verification-required"] as const) {
    const { continued, peers } = peersThat(state, "completed", "completed")
    it.effect(`is gone on with by the next plan of the session, once: ${state}`, () =>
      Effect.gen(function* () {
        const ends = []
        for (let plan = 0; plan < 3; plan++) ends.push(...all(yield* ask(), "task.finished"))
        assert.deepStrictEqual(continued, [null, task(1), null])
        assert.deepStrictEqual(
          ends.map(({ state, remote_task_id }) => [state, remote_task_id]),
          [
            [state, "remote-1"],
            ["completed", "remote-1"],
            ["completed", "remote-3"]
          ]
        )
      }).pipe(Effect.provide(layer({ script: steps(3), peers })), Effect.scoped)
    )
  }

  const ended = peersThat("completed", "failed", "canceled", "rejected")
  it.effect("is none that has ended", () =>
    Effect.gen(function* () {
      for (let plan = 0; plan < 5; plan++) yield* ask()
      assert.deepStrictEqual(ended.continued, [null, null, null, null, null])
    }).pipe(Effect.provide(layer({ script: steps(5), peers: ended.peers })), Effect.scoped)
  )

  const others = peersThat("input-required")
  it.effect("is nothing to another session, agent, endpoint or skill", () =>
    Effect.gen(function* () {
      yield* ask()
      yield* ask({ session_id: "other" })
      yield* ask({ agents: [{ ...bob, endpoint: "http://bob.other/" }] })
      yield* ask({ agents: [{ ...bob, name: "bob_ask", skills: [{ id: "x" }] }] })
      yield* ask({ agents: [{ ...bob, skills: [{ id: "find" }] }] })
      yield* ask()
      assert.deepStrictEqual(others.continued, [null, null, null, null, null, task(1)])
    }).pipe(
      Effect.provide(
        layer({
          script: [
            ...steps(3),
            ...[callTool("bob_ask_x", { input: "hi" }), callTool("bob_find", { input: "hi" })].flatMap((call) => [
              [call],
              [say("ok")]
            ]),
            ...steps(1)
          ],
          peers: others.peers
        })
      ),
      Effect.scoped
    )
  )

  const answered = peersThat("input-required", "completed", "completed")
  it.effect("is gone on with in the same plan, by the first call of its skill, and the model knows that", () =>
    Effect.gen(function* () {
      yield* ask()
      assert.deepStrictEqual(answered.continued, [null, task(1), null])
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const [result] = asked?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
      // The gateway's own words stand outside of what the peer says.
      assert.match(
        result ?? "",
        /^<result \S+ .*>\nWhich rope\?\n<\/result \S+>\nThe task is not over: the next call of bob_ask goes on with it\.$/
      )
    }).pipe(
      Effect.provide(layer({ script: [askBob, [...askBob, ...askBob], [say("ok")]], peers: answered.peers })),
      Effect.scoped
    )
  )

  const unreached = peersThat("input-required", "circuit_open", "circuit_open", "circuit_open", "completed")
  it.effect("stays open when the call that was to go on with it never reached the peer", () =>
    Effect.gen(function* () {
      yield* ask()
      yield* ask()
      yield* ask()
      assert.deepStrictEqual(unreached.continued, [null, task(1), task(1), task(1), task(1)])
    }).pipe(
      Effect.provide(
        layer({ script: [...steps(1), askBob, ...steps(1), askBob, ...steps(1)], peers: unreached.peers })
      ),
      Effect.scoped
    )
  )
})
