import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import type { Entry } from "../provider/LegalHistory.ts"
import { type CountTokens, ofPart } from "./TokenEstimate.ts"

/** A history of which files are left out, and how many tokens fewer it has. */
export interface Lighter {
  readonly messages: ReadonlyArray<Entry>
  readonly saved: number
}

/** What a message has in place of its files. A result of a tool has their lines already. */
const lineOf = (role: Entry["role"], part: Entry["parts"][number]): Entry["parts"] => {
  if (part.type !== "file" || !("file_id" in part)) return [part]
  return role === "tool" ? [] : [{ type: "text", text: fileLine(part) }]
}

/**
 * Leaves the oldest stored files out, until the history has so many tokens fewer or no old one is left: a line stays of each, and the tool `view_file` brings one back. The
 * last question and the last results keep theirs. Undefined where that saves nothing.
 */
export const leaveOut = (count: CountTokens, messages: ReadonlyArray<Entry>, tokens: number): Lighter | undefined => {
  const question = messages.findLastIndex(({ role }) => role === "user")
  const lastStep = messages.findLastIndex(({ role }) => role === "assistant")
  let saved = 0
  const lighter = messages.map((message, at) => {
    if (at === question || at > lastStep || saved >= tokens) return message
    const parts = message.parts.flatMap((part) => {
      const line = saved >= tokens ? [part] : lineOf(message.role, part)
      if (line[0] !== part) saved += ofPart(count, part) - line.reduce((sum, one) => sum + ofPart(count, one), 0)
      return line
    })
    return { ...message, parts }
  })
  return saved > 0 ? { messages: lighter, saved } : undefined
}
