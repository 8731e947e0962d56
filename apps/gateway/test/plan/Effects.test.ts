import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { completes, produces, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { type Asked, question, results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Console, Effect, Exit, Fiber, Schedule, Schema, Scope } from "effect"
import { databases } from "./Databases.ts"
import { get, start } from "./GatewayProcess.ts"

const numberOf = (name: string, usual: number) =>
  Effect.orDie(
    Config.Int(name).pipe(
      Config.withDefault(usual),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
    )
  )

const byOrder = { key: ["/order"], scope: "caller" }
const schema = { type: "object", properties: { order: { type: "string" } } }

/** Each plan pays the order that its question names, and says what it has read. */
const script = (asked: Asked) =>
  results(asked).length === 0 ? [callTool("bank_pay", { order: question(asked) })] : [say(results(asked).join())]

/** The bank takes such an order, and tells of its task late: whoever dies meanwhile knows of none. */
const isLate = (order: string) => order.includes("late")

const lateAnswers =
  (host: Host): Host =>
  (request) =>
    Effect.tap(host(request), isLate(request.body) ? Effect.sleep("3 seconds") : Effect.void)

/** A bank whose payments take a while, a database, and a provider: what gateways share. */
const shared = Effect.gen(function* () {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const late = Network.of({ serve: (host) => network.serve(lateAnswers(host)) })
  const acts = [works("300 millis"), produces("paid"), completes()]
  const bank = yield* Effect.provideService(ScriptedPeer.serve({ acts }), Network, late)
  const settings = yield* Effect.orDie(databases.postgres)
  const agent = { name: "bank", endpoint: `${bank.url}/`, dialect: "a2a-0.3" }
  const agents = [{ ...agent, skills: [{ id: "pay", input_schema: schema, effect: byOrder }] }]
  const pay = (url: string, order: string, approval: "never" | "sensitive" = "never") =>
    get(url, "/plan", { question: order, agents, preferences: { approval, on_disconnect: "continue" } })
  return {
    pay,
    environment: { ...settings, OPENAI_BASE_URL: `${provider.url}/v1`, OPENAI_API_KEY: "key", BOWLINE_LEASE_TTL: "2s" },
    /** How often the bank was told to pay each order. */
    paid: Effect.map(bank.seen, ({ sends }) => {
      const counts = new Map<string, number>()
      for (const { message } of sends) {
        const order = /\\?"order\\?":\s*\\?"([^"\\]+)/.exec(JSON.stringify(message.parts))?.[1] ?? ""
        counts.set(order, (counts.get(order) ?? 0) + 1)
      }
      return counts
    })
  }
}).pipe(Effect.provide(LoopbackNetwork.layer))

const Waiting = Schema.Struct({
  approvals: Schema.Array(Schema.Struct({ plan_id: Schema.String, task_id: Schema.String, why: Schema.String }))
})

/** Somebody who is asked whether an order was paid looks at the bank, which got all of them: it was. */
const lookUp = (url: string) =>
  Effect.gen(function* () {
    const { approvals } = yield* Effect.orDie(Schema.decodeUnknownEffect(Waiting)(yield* get(url, "/approvals")))
    for (const { plan_id, task_id, why } of approvals) {
      assert.strictEqual(why, "maybe_done")
      yield* get(url, `/plans/${plan_id}/approvals/${task_id}`, { decision: "reject" })
    }
  }).pipe(Effect.repeat(Schedule.spaced("50 millis")))

const onceEach = (paid: ReadonlyMap<string, number>) => Array.from(paid.values()).every((count) => count === 1)

describe("effects on two gateways with one Postgres", () => {
  it.live("are made once, though both are asked for each at once", () =>
    Effect.gen(function* () {
      const pairs = yield* numberOf("BOWLINE_EFFECT_PAIRS", 10)
      const { environment, paid, pay } = yield* shared
      const [one, two] = yield* Effect.all([start(environment), start(environment)], { concurrency: 2 })
      const orders = Array.from({ length: pairs }, (_, index) => `order-${index}`)
      const plans = yield* Effect.forEach(
        orders.flatMap((order) => [pay(one.url, order), pay(two.url, order)]),
        (plan) => plan,
        { concurrency: "unbounded" }
      )
      const states = new Set(plans.map(({ state }) => state))
      assert.deepStrictEqual([...states], ["completed"])
      const counts = yield* paid
      assert.strictEqual(counts.size, pairs)
      assert.isTrue(onceEach(counts), JSON.stringify([...counts]))
    })
  )

  it.live(
    "are made once, though those that make them are killed in mid-call, and somebody asks again",
    () =>
      Effect.gen(function* () {
        const kills = yield* numberOf("BOWLINE_EFFECT_KILLS", 1)
        const { environment, paid, pay } = yield* shared
        const scope = yield* Effect.scope
        const open = Effect.gen(function* () {
          const own = yield* Scope.fork(scope)
          return { own, ...(yield* Scope.provide(start(environment), own)) }
        })
        const told = { kills: 0, paid: 0, "maybe done": 0, "maybe done, and somebody was asked": 0, "not made": 0 }
        let doomed = yield* open
        for (; told.kills < kills; told.kills++) {
          const orders = ["", "", "-late", "-late"].map((suffix, index) => `order-${told.kills}-${index}${suffix}`)
          for (const order of orders) {
            // A machine that has no time for it may not make a call.
            const asking = Effect.repeat(pay(doomed.url, order), Schedule.spaced("1 second"))
            yield* Effect.forkScoped(Effect.exit(asking))
          }
          const isThere = (counts: ReadonlyMap<string, number>) => orders.every((order) => counts.has(order))
          yield* Effect.repeat(paid, { until: isThere, schedule: Schedule.spaced("10 millis") })
          // It ends by SIGKILL, while the bank works at these payments, or has told nobody of them.
          yield* Scope.close(doomed.own, Exit.void)
          const next = yield* open
          const looking = yield* Effect.forkChild(lookUp(next.url))
          const again = yield* Effect.forEach(
            orders,
            (order, index) => pay(next.url, order, index % 2 === 0 ? "never" : "sensitive"),
            { concurrency: "unbounded" }
          )
          yield* Fiber.interrupt(looking)
          for (const { final } of again) {
            // A machine that has no time for it may not answer.
            const { text = "" } = (final ?? {}) as { readonly text?: string }
            if (text.includes("paid")) told.paid++
            else if (text.includes("may have done the same")) told["maybe done"]++
            else if (text.includes("rejected it")) told["maybe done, and somebody was asked"]++
            else told["not made"]++
          }
          doomed = next
        }
        yield* Console.log(JSON.stringify(told))
        const counts = yield* paid
        assert.strictEqual(counts.size, 4 * kills)
        assert.isTrue(onceEach(counts), JSON.stringify([...counts]))
      }),
    // For each kill that may be asked for.
    6_000_000
  )
})
