import type { Firing } from "@bowline/client"
import { useEffect } from "preact/hooks"
import { bowline } from "../gateway/Gateway.ts"
import { isProblem, useResource } from "../gateway/Resource.ts"
import { Pager } from "../list/Pager.tsx"
import { here, nameSubject } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"
import { Block, Fact } from "../shell/Block.tsx"
import { Loading, Problem } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { pretty, shortId } from "../text/Format.ts"
import { ScheduleActions } from "./ScheduleActions.tsx"
import { Moment } from "./SchedulesPage.tsx"
import { questionOf, stateOf, whenOf } from "./ScheduleWords.ts"

const overlaps = {
  skip: "a due time is skipped while the plan before runs",
  queue: "a due time waits while the plan before runs",
  interrupt: "a due time ends the plan before"
} as const

const catchUps = {
  none: "due times that came while no gateway ran are missed",
  last: "of the due times that came while no gateway ran, the last one fires",
  all: "due times that came while no gateway ran fire later, up to 100"
} as const

const Firings = ({ firings }: { readonly firings: ReadonlyArray<Firing> }) => (
  <Table
    label="Firings"
    head={
      <>
        <th scope="col">Outcome</th>
        <th scope="col">Due</th>
        <th scope="col">Fired</th>
        <th scope="col">Plan</th>
        <th scope="col">Reason</th>
      </>
    }
  >
    {firings.map(({ due_at, fired_at, outcome, plan_id, reason }) => (
      <tr key={due_at}>
        <td class="fit">
          <State state={outcome} />
        </td>
        <td class="fit" data-label="Due">
          <time dateTime={due_at} title={due_at}>
            {new Date(due_at).toLocaleString("en")}
          </time>
        </td>
        <td class="fit dim" data-label="Fired">
          <Moment at={fired_at} />
        </td>
        <td class="fit" data-label="Plan">
          {plan_id === null ? null : <a href={planHref(plan_id)}>{shortId(plan_id)}</a>}
        </td>
        <td class="wide" data-label="Reason">
          {reason}
        </td>
      </tr>
    ))}
  </Table>
)

/** One schedule: when it is due, what its plans are asked, and what became of its due times. */
export const SchedulePage = ({ id }: { readonly id: string }) => {
  const cursor = here.value.query.get("cursor") ?? undefined
  const schedule = useResource(`schedule ${id}`, (signal) => bowline.schedules.get(id, { signal }), { every: 5_000 })
  const firings = useResource(
    `firings ${id} ${cursor ?? ""}`,
    (signal) => bowline.schedules.firings(id, { limit: 50 }).page(cursor, { signal }),
    { every: 5_000 }
  )
  const known = schedule.data.value
  const page = firings.data.value
  const heading = known === undefined ? "Schedule" : known.name
  useEffect(() => nameSubject(heading), [heading])
  if (isProblem(schedule.error.value, "not_found")) {
    return (
      <>
        <h1>There is no such schedule</h1>
        <p>
          It was deleted, or is somebody else's. <a href="/schedules">All schedules</a>
        </p>
      </>
    )
  }
  const refresh = () => {
    schedule.refresh()
    firings.refresh()
  }
  return (
    <>
      <h1>{heading}</h1>
      <Problem error={schedule.error.value} />
      {known === undefined ? (
        schedule.error.value === undefined && <Loading />
      ) : (
        <>
          <dl class="facts">
            <Fact name="State">
              <State {...stateOf(known)} />
            </Fact>
            <Fact name="When">{whenOf(known)}</Fact>
            <Fact name="Next">
              <Moment at={known.next_at} />
            </Fact>
            <Fact name="Last">
              <Moment at={known.last_at} />
            </Fact>
            <Fact name="Overlap">{overlaps[known.overlap]}</Fact>
            <Fact name="Catch up">{catchUps[known.catch_up]}</Fact>
          </dl>
          <ScheduleActions all schedule={known} onChange={refresh} />
          <Block title="Question">{questionOf(known)}</Block>
          <details class="card">
            <summary>The whole request</summary>
            <Block title="Request">{pretty(known.plan)}</Block>
          </details>
        </>
      )}
      <h2>Firings</h2>
      <Problem error={firings.error.value} />
      {page?.firings.length === 0 ? <p class="dim">It has not been due yet.</p> : null}
      {page === undefined || page.firings.length === 0 ? null : <Firings firings={page.firings} />}
      <Pager next={page?.next_cursor ?? null} />
    </>
  )
}
