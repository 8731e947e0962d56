import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { type Asked, results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Exit, Schedule, Scope } from "effect"
import { Webhook } from "standardwebhooks"
import { databases } from "../plan/Databases.ts"
import { get, start } from "../plan/GatewayProcess.ts"

const kills = Effect.orDie(
  Config.Int("BOWLINE_WEBHOOK_KILLS").pipe(
    Config.withDefault(2),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
  )
)

const plansOfRound = 4
const secret = `whsec_${Buffer.alloc(24, 5).toString("base64")}`

/** Each plan waits for a result that nobody gives, and then answers. */
const script = (asked: Asked) => (results(asked).length === 0 ? [callTool("pick", {})] : [say("ok")])

interface Told {
  readonly id: string
  readonly type: string
  readonly plan: string
  readonly isTaken: boolean
}

/** A receiver that refuses each third delivery, and knows what it was told, in order. */
const receiver = Effect.gen(function* () {
  const told: Array<Told> = []
  const { requests, url } = yield* (yield* Network).serve(({ body, headers }) =>
    Effect.sync(() => {
      const { data, type } = new Webhook(secret).verify(body, headers) as {
        readonly type: string
        readonly data: { readonly plan_id: string }
      }
      const isTaken = told.length % 3 !== 1
      told.push({ id: headers["webhook-id"] ?? "", type, plan: data.plan_id, isTaken })
      return Host.text(isTaken ? 204 : 503, "")
    })
  )
  return { told, requests, url }
})

/** What a plan's webhook has taken: the first time that it took each delivery, in order. */
const takenBy = (told: ReadonlyArray<Told>, plan: unknown): ReadonlyArray<string> => {
  const taken = new Map(
    told
      .filter((one) => one.isTaken && one.plan === plan)
      .toReversed()
      .map(({ id, type }) => [id, type])
  )
  return [...taken.values()].toReversed()
}

describe("webhooks of two gateways with one Postgres", () => {
  it.live(
    "are told each wait and each end, in order, though gateways are killed while they deliver",
    () =>
      Effect.gen(function* () {
        const rounds = yield* kills
        const provider = yield* (yield* Network).serve(yield* ChatHost.make(script))
        const { requests, told, url: hook } = yield* receiver
        const environment = {
          ...(yield* Effect.orDie(databases.postgres)),
          OPENAI_BASE_URL: `${provider.url}/v1`,
          OPENAI_API_KEY: "key",
          BOWLINE_LEASE_TTL: "2s",
          BOWLINE_ENV_ALLOW: "HOOK_SECRET",
          HOOK_SECRET: secret
        }
        const request = {
          question: "Which one?",
          tools: [{ name: "pick", input_schema: { type: "object" }, wait_timeout_ms: 1_000 }],
          preferences: { on_disconnect: "continue" },
          webhooks: [{ url: hook, secret_env_var: "HOOK_SECRET" }]
        }
        const stays = yield* start(environment)
        for (let round = 0; round < rounds; round++) {
          const life = yield* Scope.make()
          const doomed = yield* Scope.provide(start(environment), life)
          const before = told.length
          for (let plan = 0; plan < plansOfRound; plan++)
            yield* Effect.forkScoped(Effect.exit(get(doomed.url, "/plan", request)))
          // In the midst of its deliveries it ends by SIGKILL: another one in each round.
          yield* requests.awaitCount(before + 1 + ((round * 3) % (2 * plansOfRound)))
          yield* Scope.close(life, Exit.void)
        }
        const plansOf = Effect.map(
          get(stays.url, "/plans?limit=200"),
          ({ plans }) => plans as ReadonlyArray<{ readonly plan_id: string }>
        )
        const deliveriesOf = (plan: string) =>
          Effect.map(
            get(stays.url, `/plans/${plan}/webhooks`),
            ({ deliveries }) => deliveries as ReadonlyArray<{ readonly state: string; readonly event: string }>
          )
        for (const { plan_id } of yield* plansOf) {
          yield* Effect.repeat(deliveriesOf(plan_id), {
            until: (all) =>
              all.some(({ event }) => event.startsWith("plan.completed")) &&
              all.every(({ state }) => state === "delivered"),
            schedule: Schedule.spaced("100 millis")
          })
          assert.deepStrictEqual(takenBy(told, plan_id), ["plan.waiting", "plan.completed"], plan_id)
        }
        assert.isAtLeast((yield* plansOf).length, rounds)
      }).pipe(Effect.provide(LoopbackNetwork.layer)),
    3_600_000
  )
})
