import type { PlanId } from "@bowline/domain/plan/Plan"
import { type Idempotency, PlanExists, planOf } from "@bowline/runtime/unstable/store/Idempotency"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { NewPlan } from "@bowline/runtime/unstable/store/PlanStore"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"

interface TakenKey {
  readonly plan_id: PlanId
  readonly body: string
}

/**
 * Takes the key for the plan, also if the key has expired. Fails, and with it the transaction, if another plan has the key; waits
 * if another transaction is taking it. Call it while the transaction holds the lock on the plan's session: no deadlock is
 * possible, because no transaction that has a key waits for a session.
 */
export const takeKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { caller, createdAt, plan_id }: NewPlan,
  idempotency: NonNullable<NewPlan["idempotency"]>
) {
  const { key, body, expires_at } = idempotency
  const ours = yield* sql`
insert into idempotency as i (owner, key, body, plan_id, expires_at)
values (${caller}, ${key}, ${body}, ${plan_id}, ${expires_at}::timestamptz)
on conflict (owner, key) do update
  set body = excluded.body, plan_id = excluded.plan_id, expires_at = excluded.expires_at
  where i.expires_at <= ${fromMillis(createdAt)}::timestamptz
returning i.plan_id`
  if (ours.length > 0) return
  // The conflict locked the row, so it still exists.
  const [taken] = yield* sql<TakenKey>`select plan_id, body from idempotency where owner = ${caller} and key = ${key}`
  if (taken === undefined) return yield* Effect.die("A key that is taken has no plan")
  return yield* new PlanExists({ plan_id: yield* planOf(taken, idempotency) })
})

export const findByKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  owner: CallerName,
  idempotency: Idempotency,
  now: string
) {
  const [taken] = yield* sql<TakenKey>`
select plan_id, body from idempotency
where owner = ${owner} and key = ${idempotency.key} and expires_at > ${now}::timestamptz`
  return taken === undefined ? Option.none<PlanId>() : Option.some(yield* planOf(taken, idempotency))
})
