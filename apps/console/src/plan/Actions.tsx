import type { Plan } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { config } from "../gateway/Config.ts"
import { bowline } from "../gateway/Gateway.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { CopyButton } from "../shell/CopyButton.tsx"
import { Problem } from "../shell/Notice.tsx"
import { curl, surviving } from "./Request.ts"
import { useStart } from "./StartPlan.ts"

/** Offers a file to keep: the plan's record and all that its stream told. */
const download = (plan: Plan, live: FollowedPlan) => {
  const text = JSON.stringify({ plan, view: live.view.value }, null, 2)
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }))
  link.download = `${plan.plan_id}.json`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

/** What can be done with a plan. */
export const Actions = ({
  isOver,
  live,
  plan
}: {
  readonly live: FollowedPlan
  readonly plan: Plan
  readonly isOver: boolean
}) => {
  const isBusy = useSignal(false)
  const problem = useSignal<unknown>(undefined)
  const start = useStart((why) => {
    problem.value = new Error(why)
  })

  const act = async (action: () => Promise<unknown>) => {
    if (isBusy.value) return
    isBusy.value = true
    problem.value = undefined
    await action().catch((error: unknown) => {
      problem.value = error
    })
    isBusy.value = false
  }

  // Null where an earlier version has stored the plan.
  const request = plan.request === null ? null : { ...plan.request, question: plan.question }
  const needsKey = config.value?.caller !== "anonymous"
  return (
    <>
      <div class="actions">
        {isOver ? null : (
          <button
            type="button"
            class="danger"
            disabled={isBusy.value}
            onClick={() =>
              void act(async () => {
                await bowline.plans.cancel(plan.plan_id)
                await live.check()
              })
            }
          >
            Cancel
          </button>
        )}
        {request === null ? null : (
          <>
            <button type="button" disabled={isBusy.value} onClick={() => void act(() => start(surviving(request)))}>
              Ask again
            </button>
            <CopyButton label="Copy as curl" text={curl(location.origin, request, needsKey)} />
          </>
        )}
        <button type="button" class="quiet" onClick={() => download(plan, live)}>
          Download JSON
        </button>
      </div>
      <Problem error={problem.value} />
    </>
  )
}
