import { CircuitOpen, PaymentRequired, PeerError, Rpc, Unreachable } from "@bowline/domain/peer/PeerError"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { PeerCall, PeerClient, PeerResult, RemoteIds } from "../../src/remote/PeerClient.ts"
import { askBob, bob } from "../plan/Bob.ts"

/** `unsent`: the ids were told, and taken back. */
type Ending = PeerResult["state"] | "circuit_open" | "unsent" | "refused" | "payment"

const errors = {
  circuit_open: new CircuitOpen({ message: "Later", retryAfterMs: 1_000 }),
  unsent: new Unreachable({ message: "Away" }),
  refused: new Rpc({ message: "No such task", code: -32001, data: { reason: "TASK_NOT_FOUND" } }),
  payment: new PaymentRequired({ message: "The peer answered 402: …", terms: { accepts: ["x".repeat(1_000)] } })
}

/** Peers that end their calls as they are told, one after the other, and remember what each was to go on with. */
const peersThat = (...endings: ReadonlyArray<Ending>) => {
  const continued: Array<RemoteIds | null> = []
  const call: PeerClient["Service"]["call"] = Effect.fnUntraced(function* ({ continues }: PeerCall, onEvent) {
    const state = endings[continued.length] ?? "completed"
    continued.push(continues)
    if (state === "circuit_open") return yield* new PeerError({ reason: errors[state] })
    const remote = `remote-${continued.length}`
    const ids = continues ?? { taskId: remote, contextId: `context of ${remote}` }
    yield* onEvent({ _tag: "Accepted", remoteTaskId: ids.taskId, remoteContextId: ids.contextId })
    if (state === "unsent") yield* onEvent({ _tag: "Accepted", remoteTaskId: null, remoteContextId: null })
    if (state === "unsent" || state === "refused" || state === "payment") {
      return yield* new PeerError({ reason: errors[state] })
    }
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
    it.effect(`is continued by the next plan of the session, once: ${state}`, () =>
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
  it.effect("is not one that has ended", () =>
    Effect.gen(function* () {
      for (let plan = 0; plan < 5; plan++) yield* ask()
      assert.deepStrictEqual(ended.continued, [null, null, null, null, null])
    }).pipe(Effect.provide(layer({ script: steps(5), peers: ended.peers })), Effect.scoped)
  )

  const others = peersThat("input-required")
  it.effect("is not continued by another session, agent, endpoint or skill", () =>
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
  it.effect("is continued in the same plan, by the first call of its skill, and the model knows that", () =>
    Effect.gen(function* () {
      yield* ask()
      assert.deepStrictEqual(answered.continued, [null, task(1), null])
      const [, asked] = yield* (yield* ScriptedProvider).asked.all
      const [result] = asked?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
      // The gateway's own words stand outside of what the peer says.
      assert.match(
        result ?? "",
        /^<result \S+ .*>\nWhich rope\?\n<\/result \S+>\nThe task is not over: the next call of bob_ask continues it\.$/
      )
    }).pipe(
      Effect.provide(layer({ script: [askBob, [...askBob, ...askBob], [say("ok")]], peers: answered.peers })),
      Effect.scoped
    )
  )

  const unreached = peersThat("input-required", "circuit_open", "unsent", "unsent", "completed")
  it.effect("stays open when the call that was to continue it never reached the peer", () =>
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

  const results = Effect.gen(function* () {
    const asked = yield* (yield* ScriptedProvider).asked.all
    return asked.at(-1)?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
  })

  for (const refusal of ["refused", "payment"] as const) {
    const { continued, peers } = peersThat("input-required", refusal, "completed", "input-required", refusal)
    it.effect(`is dropped when the peer does not continue it, in this plan and in the next ones: ${refusal}`, () =>
      Effect.gen(function* () {
        yield* ask()
        yield* ask()
        assert.match(
          (yield* results).at(-2) ?? "",
          /\nThe task that was open is let go: the next call of bob_ask starts a new one\.$/
        )
        yield* ask()
        yield* ask()
        yield* ask()
        assert.deepStrictEqual(continued, [null, task(1), null, null, task(4), null])
      }).pipe(Effect.provide(layer({ script: [...steps(1), askBob, ...steps(4)], peers })), Effect.scoped)
    )
  }

  const unpaid = peersThat("payment", "completed")
  it.effect("is not one that the peer wants to be paid for first, and the model gets all of the terms", () =>
    Effect.gen(function* () {
      const finished = single(yield* ask(), "task.finished")
      assert.deepInclude(finished, {
        state: "failed",
        error: { code: "payment_required", message: errors.payment.message }
      })
      const [result = ""] = yield* results
      assert.include(result, `The peer asks for a payment: {"accepts":["${"x".repeat(1_000)}"]}`)
      assert.notInclude(result, "continues it")
      yield* ask()
      assert.deepStrictEqual(unpaid.continued, [null, null])
    }).pipe(Effect.provide(layer({ script: steps(2), peers: unpaid.peers })), Effect.scoped)
  )

  const refused = peersThat("refused")
  it.effect("is not one that was refused, and the model gets what the peer says besides", () =>
    Effect.gen(function* () {
      yield* ask()
      assert.include((yield* results)[0], 'No such task\n{"reason":"TASK_NOT_FOUND"}')
    }).pipe(Effect.provide(layer({ script: steps(1), peers: refused.peers })), Effect.scoped)
  )
})
