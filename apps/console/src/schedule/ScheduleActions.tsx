import type { Schedule } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { bowline } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"
import { Problem } from "../shell/Notice.tsx"

/** Starts the plan of a schedule, which runs on without a reader. */
const fire = async (id: string): Promise<string> => {
  const named = new AbortController()
  try {
    return await bowline.schedules.fire(id, { signal: named.signal }).planId
  } finally {
    named.abort()
  }
}

/** What can be done with a schedule. `onChange` is told when something was; without `all` it cannot be deleted. */
export const ScheduleActions = ({
  all = false,
  onChange,
  schedule: { name, paused, schedule_id: id }
}: {
  readonly schedule: Schedule
  readonly onChange: () => void
  readonly all?: boolean
}) => {
  const failure = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  const act = async (action: () => Promise<unknown>) => {
    if (isBusy.value) return
    isBusy.value = true
    failure.value = undefined
    try {
      await action()
      onChange()
    } catch (error) {
      failure.value = error
    }
    isBusy.value = false
  }
  const remove = async () => {
    if (!confirm(`Delete the schedule ${name} with its firings? Its plans stay.`)) return
    await bowline.schedules.delete(id)
    go("/schedules")
  }
  const of = all ? null : <span class="unseen"> {name}</span>
  return (
    <>
      <div class="actions">
        <button
          type="button"
          disabled={isBusy.value}
          onClick={() => void act(() => bowline.schedules.update(id, { paused: !paused }))}
        >
          {paused ? "Resume" : "Pause"}
          {of}
        </button>
        <button
          type="button"
          disabled={isBusy.value}
          onClick={() => void act(async () => go(planHref(await fire(id))))}
        >
          Fire now{of}
        </button>
        {all ? (
          <button type="button" class="danger" disabled={isBusy.value} onClick={() => void act(remove)}>
            Delete
          </button>
        ) : null}
      </div>
      <Problem error={failure.value} />
    </>
  )
}
