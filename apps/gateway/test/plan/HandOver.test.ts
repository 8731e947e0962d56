import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { callTool } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect, Fiber } from "effect"
import { post, send } from "../http/RunningGateway.ts"
import { databases } from "./Databases.ts"
import { get, start } from "./GatewayProcess.ts"
import * as HandingOver from "./HandingOver.ts"

type Gateway = Effect.Success<ReturnType<typeof start>>

/** Tells a gateway to end, which then refuses what is new, and ends well in time. */
const terminate = Effect.fnUntraced(function* ({ ended, kill, signal, url }: Gateway) {
  yield* signal("SIGTERM")
  const ready = yield* Effect.repeat(send(`${url}/ready`), { until: ({ status }) => status === 503 })
  assert.deepInclude(ready.body, { code: "draining", retryable: true, failed: ["draining"] })
  const refused = yield* post(`${url}/plan`, { question: "?" })
  assert.deepInclude(refused.body, { status: 503, code: "draining", retryable: true })
  assert.isString(refused.headers.get("retry-after"))
  // Longer than the grace by what every deployment gives a process to end.
  yield* Effect.timeout(
    Effect.promise(() => ended),
    "32 seconds"
  )
  assert.strictEqual(yield* kill("SIGKILL"), 0)
})

/** Which request has started the plan that a line of the log is about. */
const requestOf = (line: string) => {
  const { annotations } = JSON.parse(line) as { readonly annotations: Readonly<Record<string, unknown>> }
  const { plan_id, request_id } = annotations
  assert.isString(request_id)
  return { plan_id, request_id }
}

/** How many plans of each kind are handed over on Postgres. */
const large = Config.Int("BOWLINE_HANDED_OVER").pipe(Config.withDefault(6))

const handOver = Effect.fnUntraced(function* (
  size: number,
  database: Readonly<Record<string, string>>,
  isNextThere: boolean
) {
  const { end, finish, peers, plans, settings } = yield* HandingOver.make(size)
  const environment = { ...database, ...settings }
  const isMemory = database["BOWLINE_DATA_DIR"] === "memory:"
  const first = yield* start(environment)
  const there = isNextThere ? yield* start(environment) : undefined
  const readings = yield* Effect.forEach(plans, (plan) => HandingOver.read(first.url, plan), {
    concurrency: "unbounded"
  })
  yield* peers.unanswered.awaitSeen(({ sends }) => sends.length === size)
  yield* end
  yield* terminate(first)
  yield* finish
  const texts = yield* Fiber.joinAll(readings)
  const seen = plans.map(({ isKept }, index) => HandingOver.checkEnd(texts[index] ?? "", isMemory || !isKept))

  const next = there ?? (yield* start(environment))
  for (const [index, plan] of plans.entries()) {
    const isKept = plan.isKept && !isMemory
    const frames = isMemory ? (seen[index] ?? []) : yield* HandingOver.readOn(next.url, seen[index] ?? [])
    HandingOver.checkWhole(plan, frames, isKept)
    if (isMemory) continue
    const { state } = yield* get(next.url, `/plans/${String(frames[0]?.data["plan_id"])}`)
    assert.strictEqual(state, isKept ? "completed" : "aborted")
  }
  for (const [name, { seen }] of Object.entries(peers)) {
    const { sends, streams, cancels, refused } = yield* seen
    const messages = [...sends, ...streams].map(({ message }) => JSON.stringify(message.parts))
    assert.lengthOf(messages, size)
    assert.lengthOf([...new Set(messages)], size)
    assert.lengthOf(cancels, isMemory && name !== "unanswered" ? size : 0)
    assert.isEmpty(refused)
  }
  assert.lengthOf(
    first.lines.filter((line) => line.includes('"draining"')),
    1
  )
  const handed = first.lines.filter((line) => line.includes("plan_handed_over"))
  assert.lengthOf(handed, isMemory ? 0 : 4 * size)
  const resumed = next.lines.filter((line) => line.includes("plan_resumed"))
  assert.strictEqual(resumed.length > 0, !isMemory)
  assert.includeDeepMembers(handed.map(requestOf), resumed.map(requestOf))
  for (const { lines } of [first, next]) {
    const troubles = lines.filter((line) => /"level":"(WARN|ERROR)"/.test(line))
    assert.isEmpty(troubles.filter((line) => !line.includes("The peer has not sent the id of its task")))
  }
})

/** A host that takes requests, and answers none. */
const hangs: Host = () => Effect.never

describe("a gateway that is told to end while it runs plans", () => {
  it.live(
    "hands them over to another one on its Postgres: their readers lose nothing, their peers are asked once; it aborts the others",
    () =>
      Effect.gen(function* () {
        yield* handOver(yield* large, yield* databases.postgres, true)
      }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("hands them over to the next start on the embedded database", () =>
    Effect.flatMap(databases.embedded, (database) => handOver(2, database, false)).pipe(
      Effect.provide(LoopbackNetwork.layer)
    )
  )

  it.live("ends in time with a provider and peers that hang, also when it cancels their tasks", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const peer = yield* network.serve(hangs)
      const host = yield* ChatHost.make(() => [callTool("peer_ask", { input: "?" })])
      const provider = yield* network.serve((request) =>
        request.body.includes("silence") ? Effect.never : host(request)
      )
      const environment = {
        ...(yield* databases.memory),
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted",
        BOWLINE_SHUTDOWN_GRACE: "1s"
      }
      const gateway = yield* start(environment)
      const agent = { name: "peer", endpoint: `${peer.url}/`, dialect: "a2a-0.3" }
      const bodies = [
        { question: "silence" },
        { question: "?", agents: [{ ...agent, skills: [{ id: "ask" }] }] },
        // Its card is asked for.
        { question: "?", agents: [agent] }
      ]
      const running = yield* Effect.forkChild(
        Effect.forEach(bodies, (body) => post(`${gateway.url}/plan`, body), { concurrency: "unbounded" })
      )
      yield* Effect.all([provider.requests.awaitCount(2), peer.requests.awaitCount(2)])
      yield* terminate(gateway)
      for (const { body } of yield* Fiber.join(running)) {
        assert.deepInclude(body["error"], { code: "aborted", reason: "shutdown" })
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("aborts all of them where nothing is stored", () =>
    Effect.flatMap(databases.memory, (database) => handOver(2, database, false)).pipe(
      Effect.provide(LoopbackNetwork.layer)
    )
  )
})
