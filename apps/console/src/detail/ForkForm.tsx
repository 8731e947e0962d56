import type { Plan } from "@bowline/client"
import { createForks } from "@bowline/client/forks"
import { useSignal } from "@preact/signals"
import { fetchOwn } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"
import { Problem } from "../shell/Notice.tsx"

const kinds = [
  ["recorded", "Calls get what was recorded"],
  ["ask", "Each call asks first"],
  ["live", "Calls are made"]
] as const

const forks = createForks({ baseUrl: location.origin, fetch: fetchOwn })

/** Runs the plan again from this step on, and shows both side by side. */
export const ForkForm = ({ plan, step }: { readonly plan: Plan; readonly step: number }) => {
  const problem = useSignal<unknown>(undefined)
  const start = async (form: FormData) => {
    problem.value = undefined
    const model = form.get("model")
    const named = new AbortController()
    const wanted = {
      step,
      tools: kinds.find(([kind]) => kind === form.get("tools"))?.[0] ?? "recorded",
      ...(typeof model === "string" && model !== "" && { model }),
      preferences: { on_disconnect: "continue" as const }
    }
    try {
      const id = await forks.fork(plan.plan_id, wanted, { signal: named.signal }).planId
      go(`${planHref(plan.plan_id)}?with=${id}`)
    } catch (error) {
      problem.value = error
    }
    named.abort()
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void start(new FormData(event.currentTarget))
      }}
    >
      <input name="model" aria-label="Model" placeholder={plan.model} />{" "}
      <select name="tools" aria-label="Tools">
        {kinds.map(([value, text]) => (
          <option value={value}>{text}</option>
        ))}
      </select>{" "}
      <button type="submit">Fork from here</button>
      <Problem error={problem.value} />
    </form>
  )
}
