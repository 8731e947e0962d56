import { Effect } from "effect"
import { Agent } from "node:http"
import { setTimeout } from "node:timers/promises"
import { startGateway } from "../process/Child.ts"
import { connect, keepFilledStore, type Postgres } from "../process/PostgresServer.ts"
import { stream } from "./Caller.ts"
import { times } from "./LoadWindow.ts"

const words = 300
const atOnce = 100

/** What a plan may keep. */
const rowsLimit = 5
const bytesLimit = 8_192

/** Tables of what a gateway keeps of plans, and not of itself. */
const others = ["bowline_migrations", "gateway", "leases", "replicas"]

interface Table {
  readonly name: string
  readonly rows: number
  readonly bytes: number
}

type Connection = Awaited<ReturnType<typeof connect>>["sql"]

/** The rows of each table, and its bytes with its indexes and what is stored out of line. A partition counts as its table. */
export const tablesOf = async (sql: Connection): Promise<ReadonlyArray<Table>> => {
  const sizes = await Effect.runPromise(
    sql<Table>`
select coalesce(parent.relname, c.relname) as name, sum(pg_total_relation_size(c.oid))::float8 as bytes,
  sum((xpath('/row/c/text()', query_to_xml('select count(*) as c from ' || c.oid::regclass, false, true, '')))[1]::text::int)::int as rows
from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class parent on parent.oid = i.inhparent
where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
group by 1 order by 1`
  )
  return sizes.filter(({ name }) => !others.includes(name))
}

/** How many bytes the server has written to its log. */
const walOf = async (sql: Connection): Promise<number> => {
  const [row] = await Effect.runPromise(
    sql<{ readonly bytes: number }>`select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`
  )
  return row?.bytes ?? 0
}

const sum = (tables: ReadonlyArray<Table>, of: "rows" | "bytes"): number =>
  tables.reduce((total, table) => total + table[of], 0)

/** The tables that have something, one a line, with what each plan keeps in them. */
export const linesOf = (tables: ReadonlyArray<Table>): string =>
  tables
    .filter((table) => table.rows > 0 || table.bytes > 1)
    .map((table) => `  ${table.name}: ${table.rows.toFixed(2)} rows, ${table.bytes.toFixed(0)} bytes`)
    .join("\n")

/** Waits until every plan that is over or waits is sealed, for so many milliseconds at most. */
export const allSealed = async (sql: Connection, ms = Infinity): Promise<void> => {
  const until = performance.now() + ms
  while (performance.now() < until) {
    const [row] = await Effect.runPromise(
      sql<{ readonly left: number }>`select count(distinct plan_id)::int as left from events`
    )
    if (row?.left === 0) return
    await setTimeout(500)
  }
}

/**
 * Asks for so many plans of 300 words, 100 at once, on an empty database. Gives what each keeps once it is sealed, by table, and how many replays
 * differ from what was streamed, in any byte.
 */
export const kept = async (
  postgres: Postgres,
  plans: number,
  environment: { readonly [name: string]: string },
  say: (line: string) => void
) => {
  await using running = new AsyncDisposableStack()
  const store = running.use(await keepFilledStore(postgres, 0))
  const { sql } = running.use(await connect(store.url, "kept"))
  const gateway = running.use(await startGateway({ ...environment, DATABASE_URL: store.url }))
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
  running.defer(() => agent.destroy())

  await stream(gateway.url, agent, 1)
  const before = await tablesOf(sql)
  const walBefore = await walOf(sql)
  say(`${plans} plans of ${words} words, ${atOnce} at once`)
  const streamed = await times(plans, atOnce, () => stream(gateway.url, agent, words))
  await allSealed(sql)
  say("All of them are sealed")
  const wal = ((await walOf(sql)) - walBefore) / plans
  let different = 0
  await times(plans, 8, async () => {
    const text = streamed.pop() ?? ""
    const id = /plan_[\da-f-]{36}/.exec(text)?.[0]
    const replay = await fetch(`${gateway.url}/plans/${id}/events`)
    if ((await replay.text()) !== text) different++
  })
  await Effect.runPromise(sql`vacuum full`)
  const after = await tablesOf(sql)
  const each = after.map(({ bytes, name, rows }) => {
    const earlier = before.find((table) => table.name === name)
    return { name, rows: (rows - (earlier?.rows ?? 0)) / plans, bytes: (bytes - (earlier?.bytes ?? 0)) / plans }
  })
  const of = (tables: ReadonlyArray<Table>, what: "rows" | "bytes") => (sum(tables, what) - sum(before, what)) / plans
  const [rows, bytes] = [of(after, "rows"), of(after, "bytes")]
  const limit = (value: number, most: number) => `${value.toFixed(1)} ${value <= most ? "≤" : ">"} ${most}`
  return {
    isFine: rows <= rowsLimit && bytes <= bytesLimit && different === 0,
    text: `
What a plan of ${words} words keeps, of ${plans} plans that were told ${atOnce} at once: rows ${limit(rows, rowsLimit)}, bytes ${limit(bytes, bytesLimit)} with its indexes, packed
(\`vacuum full\`).
${linesOf(each)}
Log of the server (WAL) until it is sealed: ${wal.toFixed(0)} bytes.
Replays that differ from what was streamed: ${different} of ${plans}.`
  }
}
