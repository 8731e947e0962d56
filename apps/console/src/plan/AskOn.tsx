import type { Plan, PlanView } from "@bowline/client"
import { useSignal } from "@preact/signals"
import type { TargetedKeyboardEvent } from "preact"
import { useRef } from "preact/hooks"
import { askJson, inWords } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"
import { destinationOf, nextRequest } from "./NextQuestion.ts"
import { useStart } from "./StartPlan.ts"

type EntryView = PlanView["entries"][number]

/** Says something to a plan. Answers with the plan that asks it, where this one had completed by then. */
const say = async (planId: string, text: string, key: string): Promise<string | undefined> => {
  const body = { type: "text", text }
  const { plan_id } = await askJson(`${planHref(planId)}/inbox`, { method: "POST", key, body })
  return typeof plan_id === "string" && plan_id !== planId ? plan_id : undefined
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

/** What was said to a plan, and what became of it. */
export const Said = ({ entries, isOver }: { readonly entries: ReadonlyArray<EntryView>; readonly isOver: boolean }) =>
  entries.length === 0 ? null : (
    <ul class="said-to" aria-label="Said to the plan">
      {entries.map((entry) => (
        <li key={entry.entryId}>
          <span class="plain">{entry.text}</span>{" "}
          <span class="dim">
            {entry.by}, {fateOf(entry, isOver)}
          </span>{" "}
          {entry.movedTo === null ? null : <a href={planHref(entry.movedTo)}>Open its plan</a>}
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
  const { button, hint, place, what } = destinationOf(isOver)

  const send = async () => {
    if (isBusy.value || text.value.trim() === "") return
    isBusy.value = true
    problem.value = undefined
    try {
      const plan = await planOf()
      if (place === "session") await start(nextRequest(plan, text.value))
      else {
        key.current ??= Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("")
        const next = await say(plan.plan_id, text.value, key.current)
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
      <button type="submit" disabled={isBusy.value || text.value.trim() === ""}>
        {isBusy.value ? "Sending…" : button}
      </button>
      {hint === null ? null : <span class="dim">{hint}</span>}
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  )
}
