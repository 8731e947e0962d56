import { type Signal, useSignal } from "@preact/signals"
import { bowline } from "../gateway/Gateway.ts"
import { counted } from "../text/Format.ts"
import { mostSelected } from "./PlanTable.tsx"

/** How many cancels are under way at once. */
const atOnce = 4

/** Cancels plans. Answers how many of them were not: they were over already, or the gateway refused. */
const cancelAll = async (ids: ReadonlyArray<string>): Promise<number> => {
  const left = [...ids]
  let failed = 0
  const work = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      const plan = await bowline.plans.cancel(id).catch(() => undefined)
      if (plan === undefined || plan.state === "completed" || plan.state === "failed") failed++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return failed
}

/** What can be done with the selected plans. */
export const BulkCancel = ({
  onDone,
  selection
}: {
  readonly selection: Signal<ReadonlySet<string>>
  readonly onDone: () => void
}) => {
  const isBusy = useSignal(false)
  const told = useSignal("")
  const { size } = selection.value

  const cancel = async () => {
    if (isBusy.value) return
    isBusy.value = true
    const ids = [...selection.value]
    const failed = await cancelAll(ids)
    const done = `${counted(ids.length - failed, "plan")} cancelled.`
    told.value = failed === 0 ? done : `${done} ${failed} could not be cancelled.`
    selection.value = new Set()
    isBusy.value = false
    onDone()
  }

  return (
    <div class="bulk">
      {size === 0 ? null : (
        <>
          <button type="button" class="danger" disabled={isBusy.value} onClick={() => void cancel()}>
            {isBusy.value ? "Cancelling…" : `Cancel ${counted(size, "plan")}`}
          </button>
          <button
            type="button"
            class="quiet"
            onClick={() => {
              selection.value = new Set()
            }}
          >
            Select none
          </button>
          {size >= mostSelected ? (
            <span class="dim">{mostSelected} are as many as can be cancelled at once.</span>
          ) : null}
        </>
      )}
      <span role="status">{told}</span>
    </div>
  )
}
