import type { Turn } from "../Turn.ts"

/** Adds a finish behind the content of a turn that has none. Its usage comes behind the finish. */
export const withFinish = (turn: Turn): Turn => {
  const has = (...tags: ReadonlyArray<Turn[number]["_tag"]>) => turn.some(({ _tag }) => tags.includes(_tag))
  if (has("Finish", "NoFinish", "Done", "Refused")) return turn
  const reason = has("Refuse") ? "refusal" : has("Call") ? "tool_calls" : "stop"
  return turn.toSpliced(turn.findLastIndex(({ _tag }) => _tag !== "Report") + 1, 0, { _tag: "Finish", reason })
}

/** The pieces of a call's arguments. The first one is empty: it comes with the name. */
export const fragments = (text: string): ReadonlyArray<string> => {
  const half = Math.ceil(text.length / 2)
  return ["", text.slice(0, half), text.slice(half)]
}
