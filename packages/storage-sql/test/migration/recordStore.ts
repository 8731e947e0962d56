// Records what a gateway leaves in its store whose plans wait, for tests of later versions: of the gateway whose program it is given, in the empty database at the
// URL that it is given, to a file. The kinds of waits follow: `approval`, `result`, `answer`.
import { PgClient } from "@effect/sql-pg"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { becomes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool } from "@bowline/testing/provider/Turn"
import * as GatewayProcess from "@bowline/testing/unstable/GatewayProcess"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question } from "@bowline/testing/unstable/provider/Script"
import { Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { writeFileSync } from "node:fs"

const [program = "", url = "", file = "", ...kinds] = process.argv.slice(2)

/** What each kind of wait is a call of. */
const tools: Readonly<Record<string, string>> = { approval: "bob_pay", result: "pick", answer: "bob_ask" }

/** These belong to a gateway that runs, or to whoever calls it. */
const left = ["bowline_migrations", "credentials_state", "gateway", "rate_limits", "replicas", "leases"]

const send = (address: string, body?: object) =>
  Effect.promise(async (): Promise<Readonly<Record<string, unknown>>> => {
    const headers = { "content-type": "application/json", accept: "application/json", prefer: "respond-async" }
    const response = await fetch(
      address,
      body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) }
    )
    return (await response.json()) as Readonly<Record<string, unknown>>
  })

const waitIn = Effect.fnUntraced(function* (gateway: string, peer: string, kind: string) {
  const body = {
    question: kind,
    session_id: kind,
    agents: [{ name: "bob", endpoint: `${peer}/`, skills: [{ id: "ask" }, { id: "pay", approval: "always" }] }],
    ...(kind === "result" && { tools: [{ name: "pick", input_schema: { type: "object" } }] }),
    preferences: {
      on_disconnect: "continue",
      timeout_ms: 3_600_000,
      ...(kind === "answer" && { on_input_required: "wait" })
    }
  }
  // Its reader stays, and goes with the gateway.
  yield* Effect.forkDetach(Effect.ignoreCause(send(`${gateway}/plan`, body)))
  yield* Effect.repeat(send(`${gateway}/plans?session_id=${kind}`), {
    until: ({ plans }) => /"stage":"(approval|client)"/.test(JSON.stringify(plans)),
    schedule: Schedule.spaced("100 millis")
  })
})

const dump = Effect.gen(function* () {
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url) })
  const tables = yield* sql<{ readonly name: string }>`
select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'
  and not ${sql.in("table_name", left)}
  -- The rows of a partition are those of its table.
  and not exists (select from pg_inherits i where i.inhrelid = to_regclass(table_name))
order by case table_name when 'sessions' then 1 when 'plans' then 2 else 3 end, table_name`
  const [migrations] = yield* sql<{ readonly count: number }>`select count(*)::int as count from bowline_migrations`
  const filled = yield* Effect.forEach(tables, ({ name }) =>
    Effect.map(sql<{ readonly row: string }>`select row_to_json(t)::text as row from ${sql(name)} t`, (rows) => ({
      name,
      rows: rows.map(({ row }) => row)
    }))
  )
  return { version: migrations?.count, tables: filled.filter(({ rows }) => rows.length > 0) }
}).pipe(Effect.scoped, Effect.provide(Reactivity.layer))

/** The peer and the model have the names that the tests know. */
const named = (row: string, peer: string): string =>
  row.replaceAll(peer, "http://bob.test").replaceAll("openai/scripted", "scripted/model")

const record = Effect.gen(function* () {
  const network = yield* Network
  const host = yield* ChatHost.make((asked) => [callTool(tools[question(asked)] ?? "", { input: "hi" })])
  const provider = yield* network.serve(host)
  const peer = yield* ScriptedPeer.serve({ acts: [becomes("input-required", "Which one?")] })
  const gateway = yield* GatewayProcess.start(program, {
    PATH: process.env["PATH"] ?? "",
    BOWLINE_PORT: "0",
    DATABASE_URL: url,
    OPENAI_BASE_URL: `${provider.url}/v1`,
    OPENAI_API_KEY: "key",
    OPENAI_API: "chat",
    BOWLINE_MODEL: "openai/scripted"
  })
  for (const kind of kinds) yield* waitIn(gateway.url, peer.url, kind)
  // Until they are parked, where there is such a thing.
  yield* Effect.sleep("8 seconds")
  yield* gateway.kill("SIGTERM")
  const { tables, version } = yield* dump
  const written = tables.map(
    ({ name, rows }) => `${JSON.stringify(name)}: [\n${rows.map((row) => named(row, peer.url)).join(",\n")}\n]`
  )
  writeFileSync(
    file,
    `{ "version": ${version}, "at": "${new Date().toISOString()}", "tables": {\n${written.join(",\n")}\n} }\n`
  )
})
await Effect.runPromise(Effect.scoped(Effect.provide(record, LoopbackNetwork.layer)))
