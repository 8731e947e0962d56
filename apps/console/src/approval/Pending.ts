import type { NewEntry, Waiting } from "@bowline/client"
import { computed, effect, signal, untracked } from "@preact/signals"
import { bowline, randomKey, signedOut, woken } from "../gateway/Gateway.ts"
import { here, page } from "../route/Location.ts"

/** What waits for somebody: the 200 calls that have waited longest. */
export const pending = signal<ReadonlyArray<Waiting> | undefined>(undefined)
export const problem = signal<unknown>(undefined)
const hasMore = signal(false)

/** How many calls wait, for the badge. */
export const pendingCount = computed(() => `${pending.value?.length ?? 0}${hasMore.value ? "+" : ""}`)

const isLooked = computed(() => page.value === "waiting" || page.value === "approvals")

/** How the list is read. On its page an admin may name another caller. */
const reading = computed(() => ({
  caller: isLooked.value ? (here.value.query.get("caller") ?? undefined) : undefined,
  isLooked: isLooked.value
}))

/** How soon a decision that was made elsewhere is seen: on the page of what waits, on others, and in a tab that nobody looks at. */
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
  try {
    const list = bowline.waiting.list({ limit: 200, caller: how.caller })
    const { next_cursor, waiting: found } = await list.page(undefined, { signal: own.signal })
    if (current !== own) return
    if (JSON.stringify(found) !== JSON.stringify(pending.value)) pending.value = found
    hasMore.value = next_cursor !== null
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

/** A wait of a call: its plan and itself. */
type Place = Pick<Waiting, "plan_id" | "task_id">

const told = () => {
  tabs.postMessage("decided")
  woken.value++
}

/** What settles a wait. */
export type Settling = Exclude<NewEntry, { readonly type: "text" }>

/** Settles what a call waits for, and says so to the other tabs. A `key` makes the same entry again the same one. */
export const settle = async ({ plan_id }: Place, entry: Settling, key: string): Promise<void> => {
  await bowline.inbox.send(plan_id, entry, { idempotencyKey: key })
  told()
}

/** How a call is decided about. `input` are other arguments, `remember` asks no more about the tool there. */
export type Deciding = Omit<Extract<NewEntry, { readonly type: "decision" }>, "type" | "task_id">

/** Decides about a call, and says so to the other tabs. */
export const decide = async (place: Place, { decision, input, note, remember }: Deciding): Promise<void> => {
  const more = { ...(input === undefined ? {} : { input }), ...(remember === undefined ? {} : { remember }) }
  const { plan_id, task_id } = place
  if (Object.keys(more).length > 0) {
    const words = note === undefined ? {} : { note }
    return settle(place, { type: "decision", task_id, decision, ...words, ...more }, randomKey())
  }
  await bowline.plans.approve(plan_id, task_id, decision, note === undefined ? {} : { note })
  told()
}

/** Who decided about a call, from the plan's events; undefined if the plan ended without a decision. */
export const decisionOf = async (planId: string, taskId: string, signal: AbortSignal) => {
  for await (const frame of bowline.attach(planId, { signal }))
    if (frame.event === "approval.resolved" && frame.data.task_id === taskId) return frame.data
  return undefined
}
