import type { Leg } from "@bowline/client/unstable/ui/UiFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { entryOf } from "@bowline/runtime/unstable/store/InboxStore"
import { Effect } from "effect"

const keyOf = (plan: PlanId, leg: number): string => `${plan} leg ${leg}`

/**
 * The legs of plans in UI protocols: a message of the user that a running plan hears ends the answer to the one before, and begins the next one. Its
 * entry has the number of the leg in its key, so that each replica knows where a leg ends before anybody has said what ends it.
 */
export const make = Effect.gen(function* () {
  const inbox = yield* Inbox

  const newest = Effect.fnUntraced(function* (caller: CallerName, plan: PlanId) {
    let leg = 1
    while ((yield* inbox.heardBy(caller, keyOf(plan, leg + 1))) !== undefined) leg++
    return leg
  })

  const entry = (caller: CallerName, plan: PlanId, leg: number) => entryOf(caller, keyOf(plan, leg))

  const legOf = (caller: CallerName, plan: PlanId, leg: number): Leg => ({
    entry: leg === 1 ? undefined : entry(caller, plan, leg),
    until: entry(caller, plan, leg + 1)
  })

  return {
    /** The key of the entry that begins a leg. */
    nextKey: (caller: CallerName, plan: PlanId) => Effect.map(newest(caller, plan), (leg) => keyOf(plan, leg + 1)),
    /** The newest leg of a plan. */
    newest: (caller: CallerName, plan: PlanId) => Effect.map(newest(caller, plan), (leg) => legOf(caller, plan, leg)),
    /** The leg that begins with this entry; without one, with the plan. */
    behind: (caller: CallerName, plan: PlanId, first: EntryId | undefined): Leg => {
      let leg = 1
      while (first !== undefined && entry(caller, plan, leg) !== first) leg++
      return legOf(caller, plan, leg)
    }
  }
})
