import { type Signal, useSignal } from "@preact/signals"
import { bowline, inWords } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { counted } from "../text/Format.ts"
import { asked, type Filters } from "./Filters.ts"
import { mostSelected } from "./PlanTable.tsx"

/** What can be cancelled. */
const openStates = ["queued", "running", "waiting"] as const

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

/** What can be done with the selected plans. All that run and pass the filters can be selected at once, on whatever page they are. */
export const BulkCancel = ({
  filters,
  onDone,
  selection
}: {
  readonly filters: Filters
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

  const open = filters.state.length === 0 ? openStates : openStates.filter((state) => filters.state.includes(state))
  const selectAll = async () => {
    if (isBusy.value) return
    isBusy.value = true
    const asking = bowline.plans.list({ ...asked(filters, now()), state: open, limit: mostSelected }).page()
    const page = await asking.catch((error: unknown) => inWords(error))
    isBusy.value = false
    if (typeof page === "string") {
      told.value = page
      return
    }
    selection.value = new Set(page.plans.map(({ plan_id }) => plan_id))
    told.value =
      page.plans.length === 0
        ? "None of them runs."
        : `${counted(page.plans.length, "plan")} selected${page.next_cursor === null ? "" : ", the newest ones"}.`
  }

  return (
    <div class="bulk">
      {open.length === 0 ? null : (
        <button type="button" class="quiet" disabled={isBusy.value} onClick={() => void selectAll()}>
          Select all that run
        </button>
      )}
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
