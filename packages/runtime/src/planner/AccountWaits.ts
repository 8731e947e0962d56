import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, type Schema } from "effect"
import { AccountGrants } from "../auth/AccountGrants.ts"
import type { CallerTokens } from "../auth/CallerTokens.ts"
import { type AccountWait, ofMark, toMark } from "../store/AccountWait.ts"
import type { StoredWait } from "../store/InboxStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { NeededAccount } from "../tool/Tool.ts"
import type { PlanRun } from "./PlanRun.ts"

/** Wakes what waits for an account that is there by now. */
export type LookAgain = (typeof CallerTokens)["Service"]["lookAgain"]

/** What waits: a call, or a plan for one of its servers. `id` is that of the wait, `spent` how much of its own time the call has used, in milliseconds. */
interface Waiter {
  readonly id: TaskId
  readonly tool: string
  readonly agent: string | null
  readonly input: Schema.Json
  readonly spent: () => number
}

/** What an earlier process has left waiting, or woken and not resumed; undefined once this one has taken it up. */
const leftOf = ({ accountRounds, given: { resumed }, inbox }: PlanRun, id: TaskId): StoredWait | undefined => {
  const wait = accountRounds.has(id) ? undefined : resumed?.waits.get(id)
  return wait?.kind === "account" && (wait.settlement === undefined || inbox.settlementOf(id) !== undefined)
    ? wait
    : undefined
}

/** What an earlier process has left waiting for an account: nothing may be sent before that has ended, or the next process would send it again. */
export const left = (run: PlanRun, id: TaskId): AccountWait | undefined => {
  const wait = leftOf(run, id)
  return wait && ofMark(wait.mark)
}

/** Whether nobody has come in time, in an earlier process. */
export const hasExpired = ({ given: { resumed } }: PlanRun, id: TaskId): boolean => {
  const settlement = resumed?.waits.get(id)?.settlement
  return settlement !== undefined && settlement.given === undefined
}

/**
 * Waits in stage `client` until the account is there, and says whether it is: nobody may have come in time. What an earlier process has asked is asked once.
 *
 *     missing ──stored, and looked for again──▶ waits ──somebody comes, or the time is over──▶ taken
 *
 * Whoever comes between the first look and the store has found no wait: hence the second look. The wait has ended in the store before anything is sent.
 */
export const ask = Effect.fnUntraced(function* (
  run: PlanRun,
  lookAgain: LookAgain,
  { id, spent, ...shown }: Waiter,
  { found, message, ...wait }: AccountWait & Pick<NeededAccount, "found" | "message">
): Effect.fn.Return<boolean, StorageError> {
  const { caller, journal, request, resumed } = run.given
  const { wait_timeout_ms } = request.preferences
  const before = leftOf(run, id)
  const round = before?.round ?? (run.accountRounds.get(id) ?? resumed?.waits.get(id)?.round ?? 0) + 1
  run.accountRounds.set(id, round)
  const expires_at = before?.expires_at ?? fromMillis((yield* Clock.currentTimeMillis) + wait_timeout_ms)
  if (before === undefined) {
    yield* journal.keepUp
    const { task_id } = wait
    const tool = task_id === null ? null : shown.tool
    const told = { ...shown, kind: "account" as const, message, expires_at }
    const { linkOf } = yield* AccountGrants
    const { account } = wait
    const { plan_id } = run.given
    const asker = { caller, plan_id, tool: shown.agent ?? shown.tool }
    const url = account === null ? null : yield* linkOf({ account, found, ...asker })
    const rest = { schema: null, data: null, url, why: null, tool_digest: null, known_tool: null }
    journal.append(
      [
        {
          ...told,
          ...rest,
          _tag: "WaitOpened",
          task_id: id,
          round,
          mark: toMark(wait),
          spent_ms: spent(),
          left_ms: wait_timeout_ms
        },
        run.progressed(run.stage)
      ],
      // Callers know one question of this kind.
      [{ event: "waiting", data: { ...told, task_id, tool, round: 1, ...(url !== null && { url }) } }]
    )
  } else {
    journal.append([run.progressed(run.stage)], [])
  }
  yield* journal.flush
  yield* retryWhileAway(lookAgain(caller, wait.account))
  const settlement = yield* run.inbox.wait({ task_id: id, kind: "account", round, expires_at })
  journal.append(run.inbox.use(settlement), [])
  yield* journal.flush
  return settlement.given !== undefined
})
