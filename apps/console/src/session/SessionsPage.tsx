import type { ListedSession } from "@bowline/client"
import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { Pager } from "../list/Pager.tsx"
import { StateOf } from "../plan/StateOf.tsx"
import { here } from "../route/Location.ts"
import { planHref, sessionHref } from "../route/Route.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { Table } from "../shell/Table.tsx"
import { count, cutMiddle, firstLine, relative, shortId } from "../text/Format.ts"

const nameOf = ({ external_session_id, session_id }: ListedSession): string =>
  external_session_id ?? shortId(session_id)

/** A session is what it began with, if that is known. */
const Name = ({ session }: { readonly session: ListedSession }) => {
  const { external_session_id, first_question, session_id, summary } = session
  const question = first_question === null || first_question === "" ? null : firstLine(first_question)
  return (
    <td class="wide">
      <a href={sessionHref(session_id)} title={external_session_id ?? undefined}>
        {question}
        <span class={question === null ? undefined : "under dim"}> {cutMiddle(nameOf(session), 60)}</span>
      </a>
      {summary === null ? null : <span class="under dim">{firstLine(summary, 80)}</span>}
    </td>
  )
}

const Last = ({ plan }: { readonly plan: ListedSession["last_plan"] }) => (
  <td class="fit" data-label="Last plan">
    {plan === null ? null : (
      <a href={planHref(plan.plan_id)}>
        <StateOf plan={plan} />
      </a>
    )}
  </td>
)

/** The caller's conversations, the one that was active last first. */
export const SessionsPage = () => {
  const cursor = here.value.query.get("cursor") ?? undefined
  const { data, error } = useResource(
    cursor ?? "",
    (signal) => bowline.sessions.list({ limit: 50, order: "active" }).page(cursor, { signal }),
    { every: 5_000 }
  )
  const page = data.value
  return (
    <>
      <h1>Sessions</h1>
      <Problem error={error.value} />
      {page === undefined && error.value === undefined ? <Loading /> : null}
      {page?.sessions.length === 0 ? (
        <Empty title="No sessions yet">
          <p>
            A session begins with the first question that names it, or with any question. <a href="/">Ask one</a>.
          </p>
        </Empty>
      ) : null}
      {page === undefined || page.sessions.length === 0 ? null : (
        <Table
          label="Sessions"
          head={
            <>
              <th scope="col">Session</th>
              <th scope="col">Last plan</th>
              <th scope="col">Agents</th>
              <th scope="col" class="number">
                Messages
              </th>
              <th scope="col">Last active</th>
              <th scope="col">Expires</th>
            </>
          }
        >
          {page.sessions.map((session) => (
            <tr key={session.session_id}>
              <Name session={session} />
              <Last plan={session.last_plan} />
              <td class="dim">{session.agents.map(({ name }) => name).join(", ")}</td>
              <td class="fit number" data-label="Messages">
                {count(session.message_count)}
              </td>
              <td class="fit dim" data-label="Last active">
                {relative(Date.parse(session.last_active_at), now())}
              </td>
              <td class="fit dim" data-label="Expires">
                {relative(Date.parse(session.expires_at), now())}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager next={page?.next_cursor ?? null} />
    </>
  )
}
