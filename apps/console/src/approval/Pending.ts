import type { Approval, PendingApproval } from "@bowline/client"
import { computed, effect, signal, untracked } from "@preact/signals"
import { bowline, signedOut, woken } from "../gateway/Gateway.ts"
import { here, page } from "../route/Location.ts"

/** What waits for a decision, the newest first: the first 200, and what was among them before. */
export const pending = signal<ReadonlyArray<PendingApproval> | undefined>(undefined)
export const problem = signal<unknown>(undefined)
const hasMore = signal(false)

/** How many calls wait, for the badge. */
export const pendingCount = computed(() => `${pending.value?.length ?? 0}${hasMore.value ? "+" : ""}`)

/** How the list is read. On its page an admin may name another caller. */
const reading = computed(() => ({
  caller: page.value === "approvals" ? (here.value.query.get("caller") ?? undefined) : undefined,
  isLooked: page.value === "approvals"
}))

/** How soon a decision that was made elsewhere is seen: on the page of approvals, on others, and in a tab that nobody looks at. */
const every = { looked: 800, elsewhere: 5_000, hidden: 15_000 }

// The tabs of one browser tell each other at once.
const tabs = new BroadcastChannel("bowline-approvals")

let current: AbortController | undefined
let timer: ReturnType<typeof setTimeout> | undefined
let caller: string | undefined

const read = async (how: typeof reading.value): Promise<void> => {
  clearTimeout(timer)
  current?.abort()
  const own = new AbortController()
  current = own
  // What waits at another caller was not decided here.
  if (how.caller !== caller) pending.value = undefined
  caller = how.caller
  const list = bowline.approvals.list({ limit: 200, caller: how.caller })
  const shown = new Set(pending.peek()?.map(({ task_id }) => task_id))
  try {
    const first = await list.page(undefined, { signal: own.signal })
    const found = [...first.approvals]
    let { next_cursor: next } = first
    for (const { task_id } of found) shown.delete(task_id)
    // A call that newer ones have pushed off the first page still waits.
    while (shown.size > 0 && next !== null) {
      const page = await list.page(next, { signal: own.signal })
      found.push(...page.approvals.filter(({ task_id }) => shown.delete(task_id)))
      next = page.next_cursor
    }
    if (current !== own) return
    if (JSON.stringify(found) !== JSON.stringify(pending.value)) pending.value = found
    hasMore.value = first.next_cursor !== null
    problem.value = undefined
  } catch (error) {
    if (current !== own) return
    problem.value = error
  }
  const rhythm = document.hidden ? "hidden" : how.isLooked ? "looked" : "elsewhere"
  timer = setTimeout(() => void read(how), every[rhythm])
}

/** Keeps the list up to date for as long as the tab lives and is logged in. */
export const watchPending = (): void => {
  tabs.addEventListener("message", () => {
    woken.value++
  })
  effect(() => {
    const how = reading.value
    if (woken.value >= 0 && !signedOut.value) untracked(() => void read(how))
    else clearTimeout(timer)
  })
}

/** Decides about a call, and says so to the other tabs. */
export const decide = async (
  { plan_id, task_id }: Pick<PendingApproval, "plan_id" | "task_id">,
  { decision, note }: Pick<Approval, "decision" | "note">
): Promise<void> => {
  await bowline.plans.approve(plan_id, task_id, decision, note === undefined ? {} : { note })
  tabs.postMessage("decided")
  woken.value++
}

/** Who decided about a call, from the plan's events; undefined if the plan ended without a decision. */
export const decisionOf = async (planId: string, taskId: string, signal: AbortSignal) => {
  for await (const frame of bowline.attach(planId, { signal }))
    if (frame.event === "approval.resolved" && frame.data.task_id === taskId) return frame.data
  return undefined
}
