import type { Plan } from "@bowline/client"
import { useSignal } from "@preact/signals"
import type { TargetedKeyboardEvent } from "preact"
import { inWords } from "../gateway/Gateway.ts"
import { destinationOf, nextRequest } from "./NextQuestion.ts"
import { useStart } from "./StartPlan.ts"

/** A box for what comes next in the conversation of a plan. */
export const AskOn = ({ isOver, planOf }: { readonly isOver: boolean; readonly planOf: () => Promise<Plan> }) => {
  const text = useSignal("")
  const isBusy = useSignal(false)
  const problem = useSignal<string | undefined>(undefined)
  const start = useStart((why) => {
    problem.value = why
  })
  const { hint, label } = destinationOf(isOver)

  const send = async () => {
    if (isBusy.value || text.value.trim() === "") return
    isBusy.value = true
    problem.value = undefined
    try {
      await start(nextRequest(await planOf(), text.value))
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
        Next question
        <textarea
          rows={1}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
          onKeyDown={onKeyDown}
        />
      </label>
      <button type="submit" disabled={isBusy.value || text.value.trim() === ""}>
        {isBusy.value ? "Asking…" : label}
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
