import type { Schedule } from "@bowline/client"
import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { Pager } from "../list/Pager.tsx"
import { here } from "../route/Location.ts"
import { planHref, scheduleHref } from "../route/Route.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { firstLine, relative, unknown } from "../text/Format.ts"
import { ScheduleActions } from "./ScheduleActions.tsx"
import { questionOf, stateOf, whenOf } from "./ScheduleWords.ts"

/** A time of a schedule as seen from now; in full on hover. */
export const Moment = ({ at }: { readonly at: string | null }) =>
  at === null ? (
    <>{unknown}</>
  ) : (
    <time dateTime={at} title={new Date(at).toUTCString()}>
      {relative(Date.parse(at), now())}
    </time>
  )

const Row = ({ onChange, schedule }: { readonly schedule: Schedule; readonly onChange: () => void }) => (
  <tr>
    <td class="fit">
      <State {...stateOf(schedule)} />
    </td>
    <td class="wide">
      <a href={scheduleHref(schedule.schedule_id)}>{schedule.name}</a>
      <span class="under dim">{firstLine(questionOf(schedule))}</span>
    </td>
    <td data-label="When">{whenOf(schedule)}</td>
    <td class="fit" data-label="Next">
      <Moment at={schedule.next_at} />
    </td>
    <td class="fit" data-label="Last">
      {schedule.last_plan_id === null ? (
        <Moment at={schedule.last_at} />
      ) : (
        <a href={planHref(schedule.last_plan_id)}>
          <span class="unseen">Plan of {schedule.name}, </span>
          <Moment at={schedule.last_at} />
        </a>
      )}
    </td>
    <td class="fit">
      <ScheduleActions schedule={schedule} onChange={onChange} />
    </td>
  </tr>
)

/** The caller's schedules, the newest first: when each is due, and how it went. */
export const SchedulesPage = () => {
  const cursor = here.value.query.get("cursor") ?? undefined
  const { data, error, refresh } = useResource(
    cursor ?? "",
    (signal) => bowline.schedules.list({ limit: 50 }).page(cursor, { signal }),
    { every: 5_000 }
  )
  const page = data.value
  return (
    <>
      <h1>Schedules</h1>
      <Problem error={error.value} />
      {page === undefined && error.value === undefined ? <Loading /> : null}
      {page?.schedules.length === 0 ? (
        <Empty title="No schedules yet">
          <p>
            A schedule starts a plan by itself: <code>bowline schedules add nightly "…" --cron "0 9 * * 1-5"</code>, or{" "}
            <a href="/docs/reference/schedules">POST /schedules</a>.
          </p>
        </Empty>
      ) : null}
      {page === undefined || page.schedules.length === 0 ? null : (
        <Table
          label="Schedules"
          head={
            <>
              <th scope="col">State</th>
              <th scope="col">Schedule</th>
              <th scope="col">When</th>
              <th scope="col">Next</th>
              <th scope="col">Last</th>
              <td />
            </>
          }
        >
          {page.schedules.map((schedule) => (
            <Row key={schedule.schedule_id} schedule={schedule} onChange={refresh} />
          ))}
        </Table>
      )}
      <Pager next={page?.next_cursor ?? null} />
    </>
  )
}
