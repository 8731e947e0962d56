import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start } from "../http/RunningGateway.ts"
import { databases } from "./Databases.ts"
import { proxy } from "./DatabaseProxy.ts"

/** Twenty show what a large deployment costs: then the statements are printed. */
const replicas = Number(process.env["BOWLINE_IDLE_REPLICAS"] ?? 2)
const seconds = Number(process.env["BOWLINE_IDLE_SECONDS"] ?? 6)
const isMeasured = process.env["BOWLINE_IDLE_REPLICAS"] !== undefined

const perReplica = 2

describe("replicas that have nothing to do", () => {
  it.live(
    `ask the database at most ${perReplica} statements a second each`,
    () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        const { DATABASE_URL } = yield* databases.postgres
        const database = yield* proxy(DATABASE_URL, (statement) => asked.push(statement))
        for (let started = 0; started < replicas; started++) yield* start(() => [], { DATABASE_URL: database.url })
        // What a start asks is over.
        yield* Effect.sleep("2 seconds")
        asked.length = 0
        yield* Effect.sleep(seconds * 1_000)
        const counts = Map.groupBy(asked, (statement) => statement.trim().replaceAll(/\s+/g, " ").slice(0, 90))
        const rates = Array.from(counts, ([text, all]) => [all.length / replicas / seconds, text] as const)
        const rate = asked.length / replicas / seconds
        if (isMeasured)
          process.stdout.write(
            `${rate} ${JSON.stringify(
              rates.sort(([a], [b]) => b - a),
              null,
              1
            )}\n`
          )
        assert.isAtMost(rate, perReplica)
        assert.isAbove(rate, 0)
      }).pipe(Effect.scoped),
    120_000 + seconds * 1_000
  )
})
