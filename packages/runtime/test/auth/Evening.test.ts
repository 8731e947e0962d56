import { CallerName } from "@bowline/domain/caller/CallerName"
import { PeerError } from "@bowline/domain/peer/PeerError"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { json, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as CallerTokens from "../../src/auth/CallerTokens.ts"
import * as PeerAuth from "../../src/auth/PeerAuth.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { SecretKey } from "../../src/store/SecretKey.ts"
import { bob } from "../plan/Bob.ts"
import { type Mortal, mortal } from "../plan/Mortal.ts"

const stores = CallerTokens.layer.pipe(
  Layer.provideMerge(Layer.merge(MemoryStore.layer, MemoryNetwork.layer)),
  Layer.provide(Layer.succeed(SecretKey, Option.some(Redacted.make(new Uint8Array(32)))))
)

const quarter = 15 * 60_000
const calls = 15

/** Calls the agent every 10 minutes, for two and a half hours. */
const script: Script = (asked) => {
  const done = results(asked).length
  if (done >= 2 * calls) return [say("done")]
  const next = { seconds: 600, why: "The next round" }
  return [done % 2 === 0 ? callTool("bob_ask", { input: `${done}` }) : callTool("wait", next)]
}

/** `subject~end`: whom a token is of, and when it ends. */
const tokenOf = (subject: string, until: number) => `${subject}~${until}`
const read = (token: string) => {
  const [subject = "", until = "0"] = token.split("~")
  return { subject, until: Number(until) }
}

/** Exchanges tokens that are valid for others, which live for a quarter of an hour. */
const exchanging: Host = ({ body }) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const { subject, until } = read(new URLSearchParams(body).get("subject_token") ?? "")
    if (until <= now) return json(400, { error: "invalid_grant" })
    return json(200, { access_token: tokenOf(subject, now + quarter), token_type: "Bearer", expires_in: 900 })
  })

const decode = Schema.decodeUnknownEffect(PlanRequest)

describe("an evening of calls as two callers", () => {
  it.effect("has no call as anybody else, and none that is unauthorized, while a replica is killed every hour", () =>
    Effect.gen(function* () {
      const callers = ["corp:ann", "corp:bob"].map((name) => CallerName.make(name))
      const { url: token_url } = yield* (yield* Network).serve(exchanging)
      const client = yield* HttpClient.HttpClient
      const { keep } = yield* CallerTokens.CallerTokens
      const seen: Array<{ readonly plan: string; readonly subject: string }> = []
      let unauthorized = 0

      const start = Effect.gen(function* () {
        const auths = yield* PeerAuth.make(client)
        const call: PeerClient["Service"]["call"] = ({ agent, input }) =>
          Effect.gen(function* () {
            const auth = yield* auths.forAgent(agent.auth, agent.endpoint)
            const { authorization = "" } = yield* auth.headers("")
            const { subject, until } = read(authorization.replace("Bearer ", ""))
            if (until <= (yield* Clock.currentTimeMillis)) unauthorized++
            seen.push({ plan: (yield* CallerTokens.OnBehalfOf) ?? "", subject })
            yield* Effect.sleep("1 second")
            return { state: "completed", content: JSON.stringify(input), verified: "unknown" } as const
          }).pipe(Effect.catchTag("ExchangeError", ({ reason }) => Effect.fail(new PeerError({ reason }))))
        return yield* mortal({ script, peers: { call } })
      })

      const come = Effect.fnUntraced(function* (caller: CallerName) {
        const until = (yield* Clock.currentTimeMillis) + quarter
        yield* keep({ caller, value: Redacted.make(tokenOf(caller, until)), until }, true)
      })

      let replica: Mortal = yield* start
      const agent = { ...bob, skills: [{ id: "ask", idempotent: true }], auth: { type: "token_exchange", token_url } }
      const preferences = { on_disconnect: "continue", may_wait: true, max_steps: 100, timeout_ms: 21_600_000 }
      const plans = yield* Effect.forEach(callers, (caller) =>
        Effect.gen(function* () {
          yield* come(caller)
          const body = { question: "?", agents: [agent], preferences }
          const request = yield* Effect.orDie(decode(body))
          const { plan_id } = yield* Effect.scoped(replica.streams.start({ caller, request }))
          return { caller, plan_id }
        })
      )
      let waits = 0
      const isOver = Effect.suspend(() => {
        const { plans: all } = replica
        return Effect.forEach(plans, ({ caller, plan_id }) => all.get(caller, plan_id))
      }).pipe(Effect.map((all) => all.every(({ state }) => state === "completed")))
      for (let minute = 0; minute < 600 && !(yield* isOver); minute += 5) {
        yield* pass("3 seconds", "1 second")
        yield* TestClock.adjust("297 seconds")
        if (minute % 60 === 5) {
          replica.kill()
          replica = yield* start
        }
        // Each of them looks in now and then, and stays away for longer than a token lives.
        for (const [index, caller] of callers.entries()) if (minute % (25 + 10 * index) === 0) yield* come(caller)
        const { inbox } = replica
        for (const caller of callers) {
          waits += (yield* inbox.waiting(caller, { kind: "account" }, { limit: 10 })).items.length
        }
      }
      assert.strictEqual(unauthorized, 0)
      assert.isAbove(waits, 0)
      for (const { caller, plan_id } of plans) {
        const { plans } = replica
        const { state, tool_calls } = yield* plans.get(caller, plan_id)
        assert.deepStrictEqual([state, tool_calls], ["completed", 2 * calls])
      }
      assert.isAtLeast(seen.length, 2 * calls)
      for (const { plan, subject } of seen) assert.strictEqual(subject, plan)
      assert.deepStrictEqual(new Set(seen.map(({ plan }) => plan)), new Set(callers))
    }).pipe(Effect.scoped, Effect.provide(stores))
  )
})
