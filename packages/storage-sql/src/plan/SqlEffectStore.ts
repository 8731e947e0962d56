import type { EffectState } from "@bowline/domain/unstable/tool/EffectState"
import { effectId, EffectStore, pageOf, placeOf } from "@bowline/runtime/unstable/store/EffectStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { effectState } from "./internal/EffectRows.ts"

type Row = Omit<EffectState, "effect_id" | "claimed_at" | "expires_at"> & {
  readonly claimed_at: Date
  readonly expires_at: Date
}

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): EffectStore["Service"] => ({
  list: (owner, { since, tool }, page) => {
    const { at, skip } = placeOf(page.cursor)
    return withDeadline(sql<Row>`
select e.task_id, e.plan_id, e.tool, e.claimed_at, e.expires_at, ${sql.literal(effectState)} as state
from effects e
left join tasks t on t.plan_id = e.plan_id and t.id = e.task_id
left join plans p on p.id = e.plan_id
where e.owner = ${owner} and e.expires_at > now()
  ${tool === undefined ? sql`` : sql`and e.tool = ${tool}`}
  ${since === undefined ? sql`` : sql`and e.claimed_at >= ${since}`}
  ${page.cursor === undefined ? sql`` : sql`and e.claimed_at <= ${fromMillis(at)}`}
order by e.claimed_at desc, e.task_id offset ${skip} limit ${page.limit + 1}`).pipe(
      Effect.map((rows) =>
        pageOf(
          rows.map((row) => ({
            ...row,
            effect_id: effectId(row.task_id),
            claimed_at: row.claimed_at.toISOString(),
            expires_at: row.expires_at.toISOString()
          })),
          page
        )
      )
    )
  },
  forget: (task) =>
    withDeadline(sql`delete from effects where task_id = ${task} returning 1 as forgotten`).pipe(
      Effect.map((rows) => rows.length > 0)
    )
})

/** The effects of calls, in Postgres. */
export const layer = Layer.effect(
  EffectStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
