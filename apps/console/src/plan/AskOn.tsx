import type { Plan, PlanView } from "@bowline/client"
import { useSignal } from "@preact/signals"
import type { TargetedKeyboardEvent } from "preact"
import { useRef } from "preact/hooks"
import { AttachedFiles, useAttachments } from "../file/Attachments.tsx"
import { askJson, bowline, inWords, randomKey } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"
import { firstLine } from "../text/Format.ts"
import { destinationOf, nextRequest } from "./NextQuestion.ts"
import { useStart } from "./StartPlan.ts"

type EntryView = PlanView["entries"][number]

/** When a plan hears a text. */
type When = "boundary" | "now"

/** Says something to a plan. Answers with the plan that asks it, where this one had completed by then. */
const say = async (planId: string, text: string, when: When, key: string): Promise<string | undefined> => {
  const entry = { type: "text", text, when } as const
  const { plan_id } = await bowline.inbox.send(planId, entry, { idempotencyKey: key })
  return plan_id === planId ? undefined : plan_id
}

const fates = {
  accepted: "waits for the next step",
  taken: "heard",
  moved: "asked as a question",
  withdrawn: "taken back"
} as const satisfies Readonly<Record<EntryView["state"], string>>

const fateOf = ({ state, step }: EntryView, isOver: boolean): string => {
  if (state === "accepted" && isOver) return "not heard: the plan ended"
  return step === null ? fates[state] : `${fates[state]} in step ${step}`
}

/** Takes a text back that the plan has not heard. Its frame says so, where it was in time. */
const TakeBack = ({ entry, planId }: { readonly planId: string; readonly entry: EntryView }) => {
  const problem = useSignal<string | undefined>(undefined)
  const isBusy = useSignal(false)
  const takeBack = async () => {
    if (isBusy.value) return
    isBusy.value = true
    try {
      await askJson(`${planHref(planId)}/inbox/${encodeURIComponent(entry.entryId)}`, { method: "DELETE" })
    } catch (error) {
      problem.value = inWords(error)
    }
    isBusy.value = false
  }
  return (
    <>
      <button type="button" class="quiet" disabled={isBusy.value} onClick={() => void takeBack()}>
        Take back<span class="unseen">: {firstLine(entry.text, 60)}</span>
      </button>
      {problem.value === undefined ? null : (
        <span class="problem" role="alert">
          {problem.value}
        </span>
      )}
    </>
  )
}

/** What was said to a plan, and what became of it. */
export const Said = ({
  entries,
  isOver,
  planId
}: {
  readonly entries: ReadonlyArray<EntryView>
  readonly isOver: boolean
  readonly planId: string
}) =>
  entries.length === 0 ? null : (
    <ul class="said-to" aria-label="Said to the plan">
      {entries.map((entry) => (
        <li key={entry.entryId}>
          <span class="plain">{entry.text}</span>{" "}
          <span class="dim" role="status">
            {entry.by}, {fateOf(entry, isOver)}
          </span>{" "}
          {entry.movedTo === null ? null : <a href={planHref(entry.movedTo)}>Open its plan</a>}
          {entry.state === "accepted" && !isOver ? <TakeBack entry={entry} planId={planId} /> : null}
        </li>
      ))}
    </ul>
  )

/** A box for what comes next in the conversation of a plan. */
export const AskOn = ({ isOver, planOf }: { readonly isOver: boolean; readonly planOf: () => Promise<Plan> }) => {
  // The same text is said once, however often its request is sent.
  const key = useRef<string | undefined>(undefined)
  const text = useSignal("")
  const isBusy = useSignal(false)
  const problem = useSignal<string | undefined>(undefined)
  const start = useStart((why) => {
    problem.value = why
  })
  const attached = useAttachments()
  const when = useSignal<When>("boundary")
  const { button, place, what } = destinationOf(isOver)
  const asks = place === "session"
  const isEmpty = text.value.trim() === "" && !(asks && attached.files.value.length > 0)

  const send = async () => {
    if (isBusy.value || isEmpty) return
    problem.value = asks ? attached.obstacle() : undefined
    if (problem.value !== undefined) return
    isBusy.value = true
    try {
      const plan = await planOf()
      if (asks) await start(nextRequest(plan, attached.questionWith(text.value)))
      else {
        key.current ??= randomKey()
        const next = await say(plan.plan_id, text.value, when.value, key.current)
        key.current = undefined
        text.value = ""
        if (next !== undefined) go(planHref(next))
      }
    } catch (error) {
      problem.value = inWords(error)
    }
    isBusy.value = false
  }

  const onKeyDown = (event: TargetedKeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send()
  }

  return (
    <form
      class="ask-on"
      {...(asks ? attached.dropZone : {})}
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <label>
        {what}
        <textarea
          rows={1}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
            key.current = undefined
          }}
          onKeyDown={onKeyDown}
        />
      </label>
      <button type="submit" disabled={isBusy.value || isEmpty}>
        {isBusy.value ? "Sending…" : button}
      </button>
      {asks ? (
        <AttachedFiles to={attached} />
      ) : (
        <label class="when">
          Heard
          <select
            value={when.value}
            onChange={(event) => {
              when.value = event.currentTarget.value === "now" ? "now" : "boundary"
              key.current = undefined
            }}
          >
            <option value="boundary">at the next step</option>
            <option value="now">now, instead of its answer</option>
          </select>
        </label>
      )}
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  )
}
