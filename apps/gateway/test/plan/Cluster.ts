import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { type Asked, question } from "@bowline/testing/unstable/provider/Script"
import { say, type Turn } from "@bowline/testing/provider/Turn"
import { Context, Effect, Layer, Schedule } from "effect"
import { databases } from "./Databases.ts"
import { get, start } from "./GatewayProcess.ts"

type Gateway = Effect.Success<ReturnType<typeof start>>

/** Gateways of their own processes on one Postgres, with one provider. */
export class Cluster extends Context.Service<
  Cluster,
  {
    readonly gateways: ReadonlyArray<Gateway>
    readonly databaseUrl: string
    /** What each of them is started with. */
    readonly environment: Readonly<Record<string, string>>
    /** What the provider answers to this question, or as this model; to all others it says the question. */
    readonly answer: (to: string, turn: (asked: Asked) => Turn) => void
  }
>()("@bowline/gateway/test/Cluster") {
  static readonly layer = (size: number, environment: Readonly<Record<string, string>> = {}) =>
    Layer.effect(
      Cluster,
      Effect.gen(function* () {
        const network = yield* Network
        const turns = new Map<string, (asked: Asked) => Turn>()
        const host = yield* ChatHost.make((asked) => {
          const turn = turns.get(asked.model) ?? turns.get(question(asked))
          return turn?.(asked) ?? [say(question(asked))]
        })
        const provider = yield* network.serve(host)
        const database = yield* databases.postgres
        const settings = {
          ...database,
          OPENAI_BASE_URL: `${provider.url}/v1`,
          BOWLINE_MODEL: "openai/scripted",
          ...environment
        }
        // The first one makes the tables.
        const first = yield* start(settings)
        const others = Array.from({ length: size - 1 }, () => start(settings))
        const gateways = [first, ...(yield* Effect.all(others, { concurrency: "unbounded" }))]
        return {
          gateways,
          environment: settings,
          databaseUrl: database.DATABASE_URL,
          answer: (to, turn) => void turns.set(to, turn)
        }
      })
    ).pipe(Layer.provide(LoopbackNetwork.layer))
}

/** The plan once it is over. */
export const settled = (url: string, planId: unknown) =>
  get(url, `/plans/${String(planId)}`).pipe(
    Effect.repeat({
      until: ({ state }) => state !== "running" && state !== "queued" && state !== "waiting",
      schedule: Schedule.spaced("20 millis")
    })
  )
