import { until } from "@bowline/testing/http/Move"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Stream } from "effect"
import { start } from "../http/RunningGateway.ts"
import { databases } from "./Databases.ts"
import { proxy } from "./DatabaseProxy.ts"
import { askForText } from "./GatewayProcess.ts"

/** What a plan asks the database, by a piece of the statement. */
const ofPlans: ReadonlyArray<readonly [piece: string, name: string]> = [
  ["insert into rate_limits", "count the request"],
  ["from idempotency", "look for the key"],
  ["insert into idempotency", "take the key"],
  ["upserted as", "lock the session"],
  ["insert into plans", "create the plan"],
  ["leases as l", "acquire the lease"],
  ["with held as materialized", "release the lease"],
  ["from credentials_state", "read the credentials"],
  ["with forgotten as", "store the use of the credential"],
  ["input as materialized", "write a batch"],
  ["from messages", "read the history"],
  ["s.covered_seq", "read the summary"]
]

/** What a replica asks now and then, whatever its plans do. */
const ofReplicas = [
  "insert into replicas",
  "state = 'queued'",
  "abort_requested",
  "pg_notify",
  "expires_at <=",
  "to_regclass('sealed')",
  "stored as (",
  "state = 'waiting'",
  "p.inbox_count as count",
  "from push_targets"
]

const nameOf = (statement: string): ReadonlyArray<string> => {
  const known = ofPlans.find(([piece]) => statement.includes(piece))
  if (known !== undefined) return [known[1]]
  return ofReplicas.some((piece) => statement.includes(piece)) ? [] : [statement]
}

const provider = "(the provider is asked)"
const firstWord = "(the first word is sent)"

/** A gateway on Postgres. Gives what asks it, and tells what the plan asks the database in each round trip, and when. */
const begin = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>> = {}) {
  const log: Array<string> = []
  let turn = { mayBegin: Deferred.makeUnsafe<void>(), mayEnd: Deferred.makeUnsafe<void>() }
  const script: Script = () => {
    log.push(provider)
    return [until(Deferred.await(turn.mayBegin)), say("first"), until(Deferred.await(turn.mayEnd)), say(" last")]
  }
  const { DATABASE_URL } = yield* databases.postgres
  const database = yield* proxy(DATABASE_URL, (statement) => log.push(...nameOf(statement)))
  const { url } = yield* start(script, { DATABASE_URL: database.url, ...environment })

  /** The answer begins when readers see the step, and ends when they see its first word: no batch depends on the time. */
  const ask = Effect.fnUntraced(function* (body: object, headers: Readonly<Record<string, string>> = {}) {
    turn = { mayBegin: Deferred.makeUnsafe<void>(), mayEnd: Deferred.makeUnsafe<void>() }
    log.length = 0
    let text = ""
    yield* askForText(url, { question: "?", ...body }, headers).pipe(
      Stream.runForEach((piece) =>
        Effect.sync(() => {
          text += piece
          if (text.includes("event: step")) Deferred.doneUnsafe(turn.mayBegin, Effect.void)
          if (text.includes("first") && Deferred.doneUnsafe(turn.mayEnd, Effect.void)) log.push(firstWord)
        })
      )
    )
    assert.include(text, "event: done")
    return withinPlan(log)
  })
  // The first plan connects, and stores the use of the credential, which is then known for 10 s.
  yield* ask({}, { authorization: "Bearer key" })
  return ask
})

/** Without what the gateway does beside plans: the end of a transaction that began before, what is left of files, schedules that are due. */
const withinPlan = (log: ReadonlyArray<string>) =>
  log.filter(
    (name, place) =>
      !/file_chunks|from schedules/.test(name) && (name !== "COMMIT" || log.lastIndexOf("BEGIN", place) >= 0)
  )

/** What a plan asks besides batches, before its provider is asked. Batches are written side by side with that. */
const before = (log: ReadonlyArray<string>) =>
  log.slice(0, log.indexOf(provider)).filter((name) => name !== "write a batch")

const batches = (log: ReadonlyArray<string>) => log.filter((name) => name === "write a batch").length

describe("the round trips of a plan without tools to Postgres", () => {
  const by = { authorization: "Bearer key" }

  it.live("are two before its provider is asked in a new session, and four in a known one", () =>
    Effect.gen(function* () {
      const ask = yield* begin()
      for (const [body, expected] of [
        [{}, ["create the plan", "read the credentials"]],
        [{ session_id: "s" }, ["create the plan", "read the credentials"]],
        [{ session_id: "s" }, ["create the plan", "read the history", "read the summary", "read the credentials"]]
      ] as const) {
        const log = yield* ask(body)
        assert.deepStrictEqual<ReadonlyArray<string>>(before(log), expected)
        // The question with its step, the two words, and the end with the lease.
        assert.isAtMost(batches(log), 4)
        assert.strictEqual(log.length, expected.length + batches(log) + 2)
      }
    })
  )

  it.live("are one more with a limit of requests, and five more with an idempotency key", () =>
    Effect.gen(function* () {
      const ask = yield* begin({ BOWLINE_API_KEYS: "ann=key" })
      const limited = before(yield* ask({}, by))
      assert.deepStrictEqual(limited, ["count the request", "create the plan", "read the credentials"])
      assert.deepStrictEqual(before(yield* ask({}, { ...by, "idempotency-key": "k" })), [
        "count the request",
        "look for the key",
        "BEGIN",
        "lock the session",
        "take the key",
        "create the plan",
        "COMMIT",
        "read the credentials"
      ])
    })
  )
})
