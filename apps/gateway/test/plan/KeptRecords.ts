import { isSettled, type Plan } from "@bowline/domain/plan/Plan"
import { all as allPages, linesOf } from "@bowline/runtime/unstable/record/PlanExport"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"

/** What `GET /plans` gives. */
interface Page {
  readonly plans?: ReadonlyArray<Pick<Plan, "plan_id" | "state">>
  readonly next_cursor?: string | null
}

export const all = process.env["BOWLINE_TEST_RECORDS"]
const some = process.env["BOWLINE_TEST_RECORDS_SAMPLE"]

/** The tests of a sample: with files, accounts, permissions, effects of other plans, blocked credentials, withdrawn texts, answers with a schema. */
const sampled =
  /\/(http\/(Credentials|Effects|InboxRefusals|Presets|StructuredOutput|ToolFiles)|identity\/(Accounts|DiscoveredAccounts))\.test\.ts$/

const wanted = (): string | undefined => all ?? (sampled.test(expect.getState().testPath ?? "") ? some : undefined)

/** Writes what is on record of each plan of these stores that is over, where anybody may read it, and `FormerPlans.test.ts` of the test kit runs it again. */
export const keep = Effect.fnUntraced(function* (folder: string) {
  const stores = {
    store: yield* PlanStore,
    sessions: yield* SessionStore,
    inboxes: yield* InboxStore,
    files: yield* FileStore
  }
  const plans = yield* allPages((page) => stores.store.list(undefined, {}, page))
  for (const { caller, plan_id } of plans.filter(isSettled)) {
    const path = join(folder, `${plan_id}.bowline`)
    if (existsSync(path)) continue
    const lines = yield* linesOf(stores, caller, plan_id).pipe(
      Effect.catchTag(["EventsExpired", "NotFound"], () => Effect.succeed([]))
    )
    if (lines.length > 0) writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""))
  }
})

/** Keeps them when the scope ends: with `BOWLINE_TEST_RECORDS` in that folder, and some of them with `BOWLINE_TEST_RECORDS_SAMPLE`. */
export const whenOver = <E, R>(keeps: (folder: string) => Effect.Effect<void, E, R>) =>
  Effect.suspend(() => {
    const folder = wanted()
    return folder === undefined ? Effect.void : Effect.addFinalizer(() => Effect.orDie(keeps(folder)))
  })

/** The same of a gateway that keeps its plans in its own memory: each of its callers, by its key, asks for what is on record. None of a sample. */
export const ofProcess = (url: string, keys: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const records = async (headers: Readonly<Record<string, string>>) => {
      let after = ""
      for (;;) {
        const page = await fetch(`${url}/plans?limit=100${after}`, { headers })
        const { next_cursor, plans = [] } = (await page.json()) as Page
        for (const { plan_id } of plans.filter(isSettled)) {
          const path = join(all ?? "", `${plan_id}.bowline`)
          if (existsSync(path)) continue
          const exported = await fetch(`${url}/plans/${plan_id}/export`, { headers })
          if (exported.ok) writeFileSync(path, new Uint8Array(await exported.arrayBuffer()))
        }
        if (typeof next_cursor !== "string") return
        after = `&cursor=${encodeURIComponent(next_cursor)}`
      }
    }
    const callers = keys.length === 0 ? [{}] : keys.map((key) => ({ authorization: `Bearer ${key}` }))
    // The test may have killed it.
    for (const headers of callers) await records(headers).catch(() => undefined)
  })

/** The same of a store that has to be opened for that: none of a sample. */
export const whenStoreIsLeft: typeof whenOver = (keeps) => (all === undefined ? Effect.void : whenOver(keeps))
