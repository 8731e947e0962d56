import type { AnswerEntry, DecisionEntry } from "@bowline/domain/plan/Inbox"
import type { Settlement } from "../store/InboxStore.ts"

/** What somebody has given to a call that waited, where no frame has it: an answer, or more than a decision. */
export interface GivenRecord {
  readonly type: "given"
  readonly round: number
  readonly entry: AnswerEntry | DecisionEntry
}

/** Keeps what has settled a wait, if its frames do not tell it. */
export const keep = (journal: { readonly record: (what: object) => void }, { given, round }: Settlement): void => {
  const entry = given?.entry
  if (entry?.type !== "answer" && entry?.type !== "decision") return
  if (entry.type === "decision" && entry.input === undefined && entry.remember === undefined) return
  const record: GivenRecord = { type: "given", round, entry }
  journal.record(record)
}
