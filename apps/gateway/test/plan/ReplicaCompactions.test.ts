import { wait } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { Cluster } from "./Cluster.ts"
import { get } from "./GatewayProcess.ts"
import { factsIn, large, storm } from "./Storm.ts"

/** Beyond 2,400 tokens a prompt is too long, and then 1,200 of them stay: a few turns. */
const settings = { BOWLINE_CONTEXT_WINDOW: "4000", BOWLINE_SUMMARY_MODEL: "openai/scribe" }

const padding = ` ${"word ".repeat(400)}`

/** What each compaction has covered of a session, in the order of the messages. */
const coveredIn = Effect.fnUntraced(
  function* (url: string, session: string) {
    const sql = yield* PgClient.makeClient({ url: Redacted.make(url) })
    return yield* sql<{ readonly first: number; readonly last: number; readonly count: number }>`
select min(seq) as first, max(seq) as last, count(*)::int as count
from messages where session_id = ${session} and compacted_by is not null group by compacted_by order by 1`
  },
  Effect.provide(Reactivity.layer),
  Effect.scoped
)

/** Plans at once that are compacted on the way. */
const compactingStorm = Effect.fnUntraced(function* (name: string, plans: number, sessions: number) {
  const { answer, databaseUrl } = yield* Cluster
  let summaries = 0
  answer("scribe", (asked) => {
    summaries++
    // While a session waits for its summary, the others of its plans are all there.
    return [wait("20 millis"), say([...new Set(factsIn(question(asked)))].join(" "))]
  })
  let compactions = 0
  for (const { id, url, messages, turns } of yield* storm({ name, plans, sessions, padding })) {
    const told = turns.flatMap(({ frames }) => frames.filter(({ event }) => event === "compaction"))
    assert.isAbove(told.length, 0)
    compactions += told.length
    const covered = yield* coveredIn(databaseUrl, id)
    // Each one was told once, and has covered what stands directly behind the one before it.
    assert.deepStrictEqual(
      covered.map(({ count }) => count),
      told.map(({ data }) => data["messages_compacted"])
    )
    let last = 0
    for (const { first, count, ...one } of covered) {
      assert.deepStrictEqual([first, one.last], [last + 1, last + count])
      last = one.last
    }
    const { summary } = yield* get(url, `/sessions/${id}`)
    assert.strictEqual(summary, told.at(-1)?.data["summary"])
    const left = messages.filter(({ compacted }) => !compacted)
    assert.strictEqual(left[0]?.seq, last + 1)
    // Every fact is in the summary or in what stays, and none in both.
    assert.deepStrictEqual(
      [String(summary), ...left.flatMap(({ role, parts }) => (role === "user" ? [parts[0]?.text ?? ""] : []))].flatMap(
        factsIn
      ),
      turns.map(({ fact }) => fact)
    )
  }
  assert.strictEqual(summaries, compactions)
})

layer(Cluster.layer(3, settings), { excludeTestServices: true })(
  "three gateways that compact on one Postgres",
  (it) => {
    it.effect("summarise once for each compaction of 25 plans of one session, and lose no fact", () =>
      compactingStorm("one", 25, 1)
    )

    it.effect("summarise once for each compaction of many plans, ten in each session, and lose no fact", () =>
      Effect.flatMap(large, (plans) => compactingStorm("many", plans, plans / 10))
    )
  }
)
