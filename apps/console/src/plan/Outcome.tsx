import type { Plan } from "@bowline/client"
import { isAdmin } from "../gateway/Config.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { setQuery } from "../route/Location.ts"
import { type Culprit, culpritOf } from "./Culprit.ts"
import { numbersOf } from "./Numbers.ts"
import { outcomeOf } from "./OutcomeWords.ts"

/** What the plan ended of, if it did not complete. */
export const culpritOfPlan = ({ plan, view }: FollowedPlan): Culprit | undefined => {
  const record = plan.value
  const { outcome } = view.value
  if (record === undefined || outcome === null || outcome.state === "completed") return undefined
  const { endedAt, startedAt } = numbersOf(record, view.value, false)
  const times = {
    startedAt,
    endedAt: endedAt ?? startedAt,
    deadlineAt: Date.parse(record.deadline_at ?? record.created_at)
  }
  return culpritOf(view.value, outcome.error, times)
}

const Ways = ({ culprit: { docs, place, row } }: { readonly culprit: Culprit }) => (
  <p class="ways">
    {row === undefined ? null : (
      <a
        href={`${location.pathname}?row=${encodeURIComponent(row)}`}
        onClick={(event) => {
          event.preventDefault()
          setQuery({ row })
        }}
      >
        Show it in the timeline
      </a>
    )}
    {place === undefined || !isAdmin.value ? null : <a href={place.href}>{place.label}</a>}
    <a href={`/docs/${docs}`}>What to do</a>
  </p>
)

/** How the plan ended; of one that did not complete who it was, and where to look. */
export const Outcome = ({ live, plan }: { readonly live: FollowedPlan; readonly plan: Plan }) => {
  const { outcome } = live.view.value
  const words = outcomeOf(outcome)
  const culprit = culpritOfPlan(live)
  const isRetryable = outcome !== null && outcome.state !== "completed" && outcome.error.retryable
  const tone = outcome?.state === "completed" ? "good" : culprit?.isFault === true ? "bad" : "warn"
  return (
    <div role="status">
      {words === undefined ? null : (
        <div class={`outcome tone-${tone}`} key={plan.plan_id}>
          <p class={culprit === undefined ? undefined : "lead"}>{culprit?.sentence ?? words.words}</p>
          <p class="dim">
            <code>{words.code}</code>
            {isRetryable ? " The same question may succeed later." : null}
          </p>
          {culprit === undefined ? null : <Ways culprit={culprit} />}
        </div>
      )}
    </div>
  )
}
