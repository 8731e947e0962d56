import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Feedback } from "@bowline/domain/unstable/plan/Feedback"
import { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { storable } from "../internal/Storable.ts"

type Row = Omit<Feedback, "at"> & { readonly at: Date }

const notFound = Effect.fail(new NotFound({ what: "plan" }))

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): FeedbackStore["Service"] => {
  const isOf = (owner: CallerName | undefined, plan: PlanId) =>
    owner === undefined ? sql`p.id = ${plan}` : sql`p.id = ${plan} and p.owner = ${owner}`
  return {
    give: (owner, { at, caller, comment, labels, plan_id, score }) =>
      withDeadline(sql`
insert into feedback (plan_id, caller, score, comment, labels, at)
select p.id, ${caller}, ${score}::float8, ${comment === null ? null : storable(comment)}::text,
  array(select jsonb_array_elements_text(${JSON.stringify(labels)}::jsonb)), ${at}::timestamptz
from plans p where ${isOf(owner, plan_id)}
on conflict (plan_id, caller) do update
  set ordinal = default, score = excluded.score, comment = excluded.comment, labels = excluded.labels, at = excluded.at
returning 1 as given`).pipe(Effect.flatMap(([row]) => (row === undefined ? notFound : Effect.void))),
    list: (owner, plan) =>
      withDeadline(sql<Row | { readonly plan_id: null }>`
select f.plan_id, f.caller, f.score, f.comment, f.labels, f.at
from plans p left join feedback f on f.plan_id = p.id
where ${isOf(owner, plan)} order by f.ordinal desc`).pipe(
        Effect.flatMap((rows) =>
          rows.length === 0
            ? notFound
            : Effect.succeed(
                rows.flatMap((row) => (row.plan_id === null ? [] : [{ ...row, at: row.at.toISOString() }]))
              )
        )
      )
  }
}

/** What callers say of plans, in Postgres. */
export const layer = Layer.effect(
  FeedbackStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
