import type { AnswerEntry } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import { Effect } from "effect"
import type { CallQuestion, TaskCall } from "./Tool.ts"

/** How often a call may ask. */
export const maxRounds = 10

/** What somebody has answered. */
export interface GivenAnswer {
  readonly entry_id: EntryId
  readonly entry: AnswerEntry
}

/** A question of a peer or a server. */
export type Question = Omit<CallQuestion, "kind" | "round" | "timeoutMs">

/**
 * Asks the questions of one call, one after the other. The first one with the mark of what an earlier process has asked is that question. `expired`: nobody
 * has answered in time. Undefined: the call has asked too often, and nobody is asked.
 */
export const asking = ({ ask, asked }: Pick<TaskCall, "ask" | "asked">) => {
  let last = asked
  return (question: Question): Effect.Effect<GivenAnswer | "expired" | undefined> =>
    Effect.suspend(() => {
      const round = last === undefined ? 1 : last.round + (last.mark === question.mark ? 0 : 1)
      if (round > maxRounds) return Effect.undefined
      return Effect.map(ask({ kind: "answer", round, ...question }), ({ given }) => {
        // A peer without ids of its messages may ask the same again.
        last = { round, mark: null }
        if (given?.entry.type !== "answer" || given.entry_id === null) return "expired" as const
        return { entry_id: given.entry_id, entry: given.entry }
      })
    })
}
