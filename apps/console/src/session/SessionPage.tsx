import { useSignal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { isProblem, useResource } from "../gateway/Resource.ts"
import { Pager } from "../list/Pager.tsx"
import { PlanTable } from "../list/PlanTable.tsx"
import { isOver } from "../live/Settled.ts"
import { AskOn } from "../plan/AskOn.tsx"
import { go, here, nameSubject } from "../route/Location.ts"
import { Fact } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
import { Loading, Problem } from "../shell/Notice.tsx"
import { count, counted, firstLine, relative, shortId } from "../text/Format.ts"
import { conversationOf } from "./SessionTurns.ts"
import { Turn } from "./Turn.tsx"

/** Nothing is awaited any more where something went wrong. */
const Awaited = ({ error }: { readonly error: unknown }) => (error === undefined ? <Loading /> : null)

/** One conversation: what it is about, its plans, and its history in order. */
export const SessionPage = ({ id }: { readonly id: string }) => {
  const cursor = here.value.query.get("cursor") ?? undefined
  const session = useResource(`session ${id}`, (signal) => bowline.sessions.get(id, { signal }), { every: 5_000 })
  const plans = useResource(
    `plans ${id}`,
    (signal) => bowline.plans.list({ session_id: id, limit: 50 }).page(undefined, { signal }),
    { every: 3_000 }
  )
  const messages = useResource(
    `messages ${id} ${cursor ?? ""}`,
    (signal) => bowline.sessions.messages(id, { limit: 50 }).page(cursor, { signal }),
    { every: 5_000 }
  )
  const failure = useSignal<unknown>(undefined)
  const told = useSignal("")
  const isBusy = useSignal(false)

  const act = async (action: () => Promise<string>) => {
    if (isBusy.value) return
    isBusy.value = true
    failure.value = undefined
    try {
      told.value = await action()
      session.refresh()
      messages.refresh()
    } catch (error) {
      failure.value = error
    }
    isBusy.value = false
  }

  const compact = () =>
    act(async () => {
      const { compaction } = await bowline.sessions.compact(id)
      return compaction === null
        ? "There is nothing to compact."
        : `${count(compaction.messages_compacted)} messages are a summary now.`
    })

  const revert = (messageId: string) =>
    act(async () => {
      if (!confirm("Drop everything after this message? What still runs in this session is cancelled.")) return ""
      await bowline.sessions.revert(id, messageId)
      return "What came after it is gone."
    })

  const remove = () =>
    act(async () => {
      if (!confirm("Delete this session with all its plans? What still runs is cancelled.")) return ""
      await bowline.sessions.delete(id)
      go("/sessions")
      return ""
    })

  const known = session.data.value
  const page = messages.data.value
  const listed = plans.data.value?.plans ?? []
  const newest = listed[0]
  const first = page?.messages.find(({ role }) => role === "user")?.parts[0]
  const question = first?.type === "text" && cursor === undefined ? firstLine(first.text) : undefined
  const heading =
    known?.external_session_id == null ? (question ?? `Session ${shortId(id)}`) : `Session ${known.external_session_id}`
  useEffect(() => nameSubject(heading), [heading])
  const revertOf = (messageId: string) =>
    page?.next_cursor === null && page.messages.at(-1)?.message_id === messageId
      ? undefined
      : () => void revert(messageId)
  if (isProblem(session.error.value, "not_found")) {
    return (
      <>
        <h1>There is no such session</h1>
        <p>
          It was deleted, has expired, or is somebody else's. <a href="/sessions">All sessions</a>
        </p>
      </>
    )
  }
  return (
    <>
      <h1>{heading}</h1>
      <Problem error={session.error.value} />
      {known === undefined ? (
        <Awaited error={session.error.value} />
      ) : (
        <>
          <dl class="facts">
            <Fact name="Id">
              <code>{shortId(known.session_id)}</code>{" "}
              <CopyButton label="Copy" what="Copy the id of the session" text={known.session_id} />
            </Fact>
            <Fact name="Messages">{count(known.message_count)}</Fact>
            <Fact name="Last active">{relative(Date.parse(known.last_active_at), now())}</Fact>
            <Fact name="Expires">{relative(Date.parse(known.expires_at), now())}</Fact>
            {known.agents.length === 0 ? null : (
              <Fact name="Agents">{known.agents.map(({ name }) => name).join(", ")}</Fact>
            )}
          </dl>
          <div class="actions">
            <button type="button" disabled={isBusy.value} onClick={() => void compact()}>
              Compact
            </button>
            <button type="button" class="danger" disabled={isBusy.value} onClick={() => void remove()}>
              Delete
            </button>
            <span role="status">{told}</span>
          </div>
          <Problem error={failure.value} />
          {known.summary === null ? null : (
            <details class="card">
              <summary>Summary of what was compacted</summary>
              <p class="plain">{known.summary}</p>
            </details>
          )}
        </>
      )}
      <h2>Conversation</h2>
      <Problem error={messages.error.value} />
      {page === undefined ? (
        <Awaited error={messages.error.value} />
      ) : (
        <ol class="conversation">
          {conversationOf(page.messages, listed, page.next_cursor === null).map((turn) => (
            <Turn key={turn.planId} turn={turn} revertOf={revertOf} />
          ))}
        </ol>
      )}
      <Pager next={page?.next_cursor ?? null} />
      {newest === undefined || page?.next_cursor !== null ? null : (
        <AskOn isOver={isOver(newest)} planOf={() => bowline.plans.get(newest.plan_id)} />
      )}
      <Problem error={plans.error.value} />
      {plans.data.value === undefined ? (
        <Awaited error={plans.error.value} />
      ) : (
        <details class="as-list">
          <summary>{counted(listed.length, "plan")} as a list</summary>
          <PlanTable label="Plans of the session" plans={listed} />
        </details>
      )}
    </>
  )
}
