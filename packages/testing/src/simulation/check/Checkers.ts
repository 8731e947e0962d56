import type { Observed } from "../scenario/Observed.ts"
import { approvals } from "./Approvals.ts"
import { budgets } from "./Budgets.ts"
import { calls } from "./Calls.ts"
import { effects } from "./Effects.ts"
import { entries } from "./Entries.ts"
import { firings } from "./FiredOnce.ts"
import { gists } from "./Gists.ts"
import { histories } from "./Histories.ts"
import { inTime } from "./InTime.ts"
import { liveness } from "./Liveness.ts"
import { parking } from "./Parking.ts"
import { oneEnd } from "./OneEnd.ts"
import { readers } from "./Readers.ts"
import { spending } from "./Spending.ts"
import { streams } from "./Streams.ts"
import { toldOnce } from "./ToldOnce.ts"
import { trueCalls } from "./TrueCalls.ts"
import { trueEnd } from "./TrueEnd.ts"
import { wholeFiles } from "./WholeFiles.ts"

/** Something that must not have happened: the rule that it breaks, and what was seen. */
export interface Violation {
  readonly rule: string
  readonly what: string
}

/** Looks at a run that is over, and says in a sentence each what must not have happened. */
export type Checker = (observed: Observed) => ReadonlyArray<string>

/** What must hold of every run, whatever happens in it. */
export const checkers = {
  oneEnd,
  trueEnd,
  streams,
  readers,
  calls,
  trueCalls,
  approvals,
  parking,
  entries,
  effects,
  firings,
  gists,
  histories,
  inTime,
  spending,
  budgets,
  toldOnce,
  wholeFiles,
  liveness
} satisfies Record<string, Checker>

/** All that is wrong with a run, by these rules. */
export const check = (
  observed: Observed,
  rules: Readonly<Record<string, Checker>> = checkers
): ReadonlyArray<Violation> =>
  Object.entries(rules).flatMap(([rule, checker]) => checker(observed).map((what) => ({ rule, what })))
