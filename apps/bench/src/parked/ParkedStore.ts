import { Effect } from "effect"
import { allSealed } from "../load/Kept.ts"
import { connect } from "../process/PostgresServer.ts"

/** A plan that waits for the result of a call. */
export interface Original {
  readonly plan_id: string
  readonly task_id: string
}

/** How many copies one statement makes. */
const batch = 20_000

/** The tables of a plan that waits, in the order in which their rows refer to each other, and how the rows of one plan are found. */
const tables = {
  sessions: "id = (select session_id from plans where id = $plan)",
  plans: "id = $plan",
  messages: "plan_id = $plan",
  sealed: "plan_id = $plan",
  tasks: "plan_id = $plan",
  waits: "plan_id = $plan"
} as const

const prefixed = /"(?:session|plan|msg)_([0-9a-f-]{36})"/g

/** The id of copy `n` in place of an original one: as random as those that the gateway makes. */
const copied = (id: string): string =>
  `overlay(overlay(md5('${id}' || n) placing '4' from 13) placing '8' from 17)::uuid::text`

/** A database to which parked plans are added by SQL. */
export const openStore = async (url: string) => {
  const { sql, ...connection } = await connect(url, "parked")
  const run = <A extends object>(statement: string): Promise<ReadonlyArray<A>> =>
    Effect.runPromise(sql.unsafe<A>(statement))
  const rowsOf = (table: keyof typeof tables, plan: string) =>
    `select row_to_json(t)::text as row from ${table} t where ${tables[table].replace("$plan", `'${plan}'`)}`

  return {
    ...connection,
    /** Waits until the events of every plan are sealed, as far as it has come. */
    sealed: () => allSealed(sql),
    /** Copies a plan that is sealed up to where it waits, with all its rows, so many times. What is sealed names the calls of the original. */
    copy: async ({ plan_id, task_id }: Original, copies: number, say: (made: number) => void) => {
      const names = Object.keys(tables) as ReadonlyArray<keyof typeof tables>
      const rows = await Promise.all(
        names.map(async (table) => {
          const found = await run<{ readonly row: string }>(rowsOf(table, plan_id))
          return found.map(({ row }) => ({ table, row }))
        })
      )
      const all = rows.flat()
      const named = all.flatMap(({ row }) => Array.from(row.matchAll(prefixed), ([, id = ""]) => id))
      const ids = Array.from(new Set([task_id, ...named]))
      for (let first = 1; first <= copies; first += batch) {
        const last = Math.min(first + batch - 1, copies)
        for (const { row, table } of all) {
          const text = `'${row.replaceAll("'", "''")}'`
          const replaced = ids
            .filter((id) => row.includes(id))
            .reduce((sum, id) => `replace(${sum}, '${id}', ${copied(id)})`, text)
          await run(`insert into ${table} overriding user value
select r.* from generate_series(${first}, ${last}) n, json_populate_record(null::${table}, ${replaced}::json) r`)
        }
        say(last)
      }
      await run("vacuum analyze")
    },
    /** The calls that wait for a result, of so many copies. */
    some: ({ plan_id, task_id }: Original, count: number) =>
      run<Original>(`select 'plan_' || ${copied(plan_id.replace("plan_", ""))} as plan_id, ${copied(task_id)} as task_id
from generate_series(1, ${count}) n`),
    /** The bytes of the database, with all indexes. */
    size: async () => {
      const [row] = await run<{ readonly bytes: number }>(
        "select pg_database_size(current_database())::float8 as bytes"
      )
      return row?.bytes ?? 0
    }
  }
}

/** Counts statements by `pg_stat_statements`. */
export const countStatements = async (server: string) => {
  const { sql, ...connection } = await connect(server, "parked")
  const isThere = await Effect.runPromise(
    sql`create extension if not exists pg_stat_statements`.pipe(
      Effect.andThen(sql`select pg_stat_statements_reset()`),
      Effect.as(true),
      Effect.orElseSucceed(() => false)
    )
  )
  return {
    ...connection,
    /** How often each statement was run in the database of the URL, since the last reset; undefined where nobody counts. */
    counts: async (url: string) => {
      if (!isThere) return undefined
      const name = new URL(url).pathname.slice(1)
      return Effect.runPromise(sql<{ readonly query: string; readonly calls: number; readonly ms: number }>`
select s.query, sum(s.calls)::int as calls, sum(s.total_exec_time)::float8 as ms
from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = ${name} group by s.query order by 2 desc`)
    },
    reset: () => Effect.runPromise(sql`select pg_stat_statements_reset()`)
  }
}
