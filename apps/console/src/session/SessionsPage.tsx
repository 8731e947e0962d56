import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { Pager } from "../list/Pager.tsx"
import { here } from "../route/Location.ts"
import { sessionHref } from "../route/Route.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { Table } from "../shell/Table.tsx"
import { count, cutMiddle, firstLine, relative, shortId } from "../text/Format.ts"

/** The caller's conversations, the newest first. */
export const SessionsPage = () => {
  const cursor = here.value.query.get("cursor") ?? undefined
  const { data, error } = useResource(
    cursor ?? "",
    (signal) => bowline.sessions.list({ limit: 50 }).page(cursor, { signal }),
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
              <td class="wide">
                <a href={sessionHref(session.session_id)} title={session.external_session_id ?? undefined}>
                  {cutMiddle(session.external_session_id ?? shortId(session.session_id), 60)}
                </a>
                {session.summary === null ? null : <span class="dim"> {firstLine(session.summary, 80)}</span>}
              </td>
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
