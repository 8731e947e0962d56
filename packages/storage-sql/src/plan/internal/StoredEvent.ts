import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"

/** A row of events as the driver reads it. */
export type StoredEvent = Omit<EventRow, "at" | "record"> & {
  readonly at: Date
  readonly record?: string | null | undefined
}

/** `at` of the event `e`. Of one that an earlier version has stored: when its plan was created, or when it ended. */
export const eventTime = `coalesce(e.at, (
  select case when e.event in ('final', 'error', 'done') then coalesce(p.finished_at, p.created_at) else p.created_at end
  from plans p where p.id = e.plan_id
)) as at`

/** A time that Postgres has put into JSON, as everybody else writes it. */
export const sameTime = (at: string): string => fromMillis(Date.parse(at))

export const toEventRow = ({ at, record, ...row }: StoredEvent): EventRow => ({
  ...row,
  at: at.toISOString(),
  ...(record != null && { record })
})
