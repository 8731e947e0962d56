import { Effect } from "effect"
import { allSealed, linesOf, tablesOf } from "../load/Kept.ts"
import { connect } from "../process/PostgresServer.ts"

/** What the database knows of a gateway. */
export interface Stored {
  /** Those of the gateway to the database. */
  readonly connections: number
  readonly leases: number
  /** Plans that are not over. */
  readonly running: number
}

/** Looks into the database of a gateway that is alone on it, and cuts the gateway's connections. */
export const probe = async (url: string) => {
  const { sql, [Symbol.asyncDispose]: close } = await connect(url, "soak")
  const others = sql`datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`
  return {
    look: () =>
      Effect.runPromise(
        Effect.map(
          sql<Stored>`select (select count(*)::int from pg_stat_activity where ${others}) as connections,
            (select count(*)::int from leases) as leases,
            (select count(*)::int from plans where state in ('queued', 'running')) as running`,
          ([row]) => row ?? { connections: 0, leases: 0, running: 0 }
        )
      ),
    /** How many plans have not exactly one end, and `done` as the last event. Of one that is sealed its row tells that it has one. */
    withoutEnd: () =>
      Effect.runPromise(
        Effect.map(
          sql<{ readonly plans: number }>`select count(*)::int as plans from plans p where case
            when exists (select from sealed s where s.plan_id = p.id and s.ended_at = p.finished_at) then (p.final is null) = (p.error is null)
            else 1 <> (
            select count(*) from events e where e.plan_id = p.id and e.event in ('final', 'error')
            ) or 'done' is distinct from (select event from events e where e.plan_id = p.id order by seq desc limit 1) end`,
          ([row]) => row?.plans ?? 0
        )
      ),
    /** What is kept of the average plan, by table, once all of them are sealed: without a vacuum, with room that is free. */
    kept: async (): Promise<string> => {
      await allSealed(sql, 180_000)
      const tables = await tablesOf(sql)
      const plans = tables.find(({ name }) => name === "plans")?.rows ?? 0
      const each = tables.map(({ bytes, name, rows }) => ({ name, rows: rows / plans, bytes: bytes / plans }))
      return `Kept of each of ${plans} plans, not packed:\n${linesOf(each)}`
    },
    /** The connections of the gateway end in the middle of what they do. */
    cut: () => Effect.runPromise(sql`select pg_terminate_backend(pid) from pg_stat_activity where ${others}`),
    [Symbol.asyncDispose]: close
  }
}
