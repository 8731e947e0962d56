import type { Turn } from "../Turn.ts"

/** Where a turn does not say how it finishes, it does so behind its content, and reports its usage afterwards. */
export const withFinish = (turn: Turn): Turn => {
  const has = (...tags: ReadonlyArray<Turn[number]["_tag"]>) => turn.some(({ _tag }) => tags.includes(_tag))
  if (has("Finish", "NoFinish", "Done", "Refused")) return turn
  const reason = has("Refuse") ? "refusal" : has("Call") ? "tool_calls" : "stop"
  return turn.toSpliced(turn.findLastIndex(({ _tag }) => _tag !== "Report") + 1, 0, { _tag: "Finish", reason })
}

/** The pieces in which the arguments of a call are written, behind one for its name. */
export const fragments = (text: string): ReadonlyArray<string> => {
  const half = Math.ceil(text.length / 2)
  return ["", text.slice(0, half), text.slice(half)]
}
