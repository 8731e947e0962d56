import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { completes, produces, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { type Asked, question, results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Exit, Schedule, Scope } from "effect"
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

/** A bank whose payments take a while, a database, and a provider: what gateways share. */
const shared = Effect.gen(function* () {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const bank = yield* ScriptedPeer.serve({ acts: [works("300 millis"), produces("paid"), completes()] })
  const settings = yield* Effect.orDie(databases.postgres)
  const agent = { name: "bank", endpoint: `${bank.url}/`, dialect: "a2a-0.3" }
  const agents = [{ ...agent, skills: [{ id: "pay", input_schema: schema, effect: byOrder }] }]
  const pay = (url: string, order: string) =>
    get(url, "/plan", { question: order, agents, preferences: { approval: "never", on_disconnect: "continue" } })
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

  it.live("are made once, though the one that makes them is killed in mid-call, and somebody asks again", () =>
    Effect.gen(function* () {
      const kills = yield* numberOf("BOWLINE_EFFECT_KILLS", 5)
      const { environment, paid, pay } = yield* shared
      const orders = Array.from({ length: kills }, (_, index) => `order-${index}`)
      const first = yield* Scope.make()
      const doomed = yield* Scope.provide(start(environment), first)
      for (const order of orders) yield* Effect.forkScoped(Effect.exit(pay(doomed.url, order)))
      yield* Effect.repeat(paid, { until: ({ size }) => size === kills, schedule: Schedule.spaced("10 millis") })
      // It ends by SIGKILL, while the bank works at every payment.
      yield* Scope.close(first, Exit.void)
      const next = yield* start(environment)
      const again = yield* Effect.forEach(orders, (order) => pay(next.url, order), { concurrency: "unbounded" })
      for (const { final } of again) {
        assert.match((final as { readonly text: string }).text, /paid|may have done the same|still runs/)
      }
      const counts = yield* paid
      assert.strictEqual(counts.size, kills)
      assert.isTrue(onceEach(counts), JSON.stringify([...counts]))
    })
  )
})
