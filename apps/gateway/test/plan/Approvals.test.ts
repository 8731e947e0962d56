import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option, Schedule, Stream } from "effect"
import { Cluster, settled } from "./Cluster.ts"
import { ask, type Frame, get, replay } from "./GatewayProcess.ts"
import { checkStream } from "./Storm.ts"

const onRealClock = { excludeTestServices: true }

const of = (frames: ReadonlyArray<Frame>, task_id: unknown) =>
  frames.filter(({ data }) => data["task_id"] === task_id).map(({ event }) => event)

interface Waiting {
  readonly id: string
  readonly task_id: unknown
}

const approve = (url: string, { id, task_id }: Waiting) =>
  get(url, `/plans/${id}/approvals/${String(task_id)}`, { decision: "approve" })

/** Asks, and disconnects when the call waits. */
const askAndLeave = Effect.fnUntraced(function* (url: string, peer: string, question: string) {
  const { answer } = yield* Cluster
  answer(question, (asked) =>
    results(asked).length === 0 ? [callTool("rigger_pay", { input: question })] : [say(results(asked).join())]
  )
  const skills = [{ id: "pay", approval: "always" }]
  const agents = [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }]
  const requested = yield* ask(url, { question, agents, preferences: { on_disconnect: "continue" } }).pipe(
    Stream.filter(({ event }) => event === "approval.requested"),
    Stream.runHead
  )
  const { plan_id, task_id } = Option.getOrThrow(requested).data
  const waiting: Waiting = { id: String(plan_id), task_id }
  return waiting
})

/** The plan was carried to its end, with the events of its one call in order, and each of them once. */
const checkPaid = Effect.fnUntraced(function* (url: string, { id, task_id }: Waiting) {
  const { final, state } = yield* settled(url, id)
  assert.strictEqual(state, "completed")
  assert.match(JSON.stringify(final), /paid/)
  const frames = yield* Stream.runCollect(replay(url, id))
  checkStream(frames)
  assert.deepStrictEqual(
    of(frames, task_id).filter((event) => event !== "task.progress"),
    ["approval.requested", "approval.resolved", "task.started", "task.artifact", "task.finished"]
  )
})

const pays = ScriptedPeer.serve({ acts: [produces("paid"), completes()] })

layer(Layer.merge(Cluster.layer(3, { BOWLINE_LEASE_TTL: "1s" }), LoopbackNetwork.layer), onRealClock)(
  "an approval on three gateways",
  (it) => {
    it.effect("that one asks for and another one gives reaches the plan, whose caller has gone", () =>
      Effect.gen(function* () {
        const [a, b] = (yield* Cluster).gateways
        if (a === undefined || b === undefined) return assert.fail("There are three")
        const { seen, url } = yield* pays
        const asked = yield* askAndLeave(a.url, url, "elsewhere")
        assert.include(JSON.stringify(yield* get(b.url, "/approvals")), asked.id)
        assert.strictEqual((yield* approve(b.url, asked))["decision"], "approve")
        yield* checkPaid(b.url, asked)
        assert.lengthOf((yield* seen).sends, 1)
      })
    )

    it.effect("is given after its gateway was killed, before the plan is taken over or behind that", () =>
      Effect.gen(function* () {
        const [stays, ...killed] = (yield* Cluster).gateways
        if (stays === undefined) return assert.fail("There are three")
        const others = [stays, ...killed]
        for (const [at, gateway] of killed.entries()) {
          const { seen, url } = yield* pays
          const asked = yield* askAndLeave(gateway.url, url, `killed ${at}`)
          yield* gateway.kill("SIGKILL")
          const isTakenOver = Effect.sync(() =>
            others.some(({ lines }) => lines.some((line) => line.includes("plan_resumed") && line.includes(asked.id)))
          )
          if (at > 0) {
            yield* Effect.repeat(isTakenOver, { until: (is) => is, schedule: Schedule.spaced("20 millis") })
          }
          assert.strictEqual((yield* approve(stays.url, asked))["decision"], "approve")
          yield* checkPaid(stays.url, asked)
          assert.lengthOf((yield* seen).sends, 1)
        }
      })
    )
  }
)
