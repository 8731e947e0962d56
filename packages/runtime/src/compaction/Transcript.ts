import type { TaskId } from "@bowline/domain/tool/TaskState"
import { fileNote, fileText } from "../provider/FileText.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import { fairShare, toTokens } from "./Shorten.ts"
import type { CountTokens } from "./TokenEstimate.ts"

/** A part of a history, retold as text. */
interface Told {
  readonly who: string
  readonly text: string
  readonly isResult: boolean
}

/** The peers' ids of remote tasks. */
export type RemoteTasks = ReadonlyMap<TaskId, string>

/** Tokens: a text that is cut shorter is useless. */
const leastTold = 128

const tell = (messages: ReadonlyArray<Entry>, remote: RemoteTasks): ReadonlyArray<Told> => {
  const tools = new Map<TaskId, string>()
  return messages.flatMap(({ role, parts }) =>
    parts.flatMap((part): ReadonlyArray<Told> => {
      switch (part.type) {
        case "text": {
          const who = role === "user" ? "The user said" : "The assistant said"
          return part.partial === true || part.text.trim() === "" ? [] : [{ who, text: part.text, isResult: false }]
        }
        case "file":
          return [{ who: "The user attached", text: fileText(part) ?? fileNote(part), isResult: false }]
        case "tool_call": {
          tools.set(part.task_id, part.tool)
          const id = remote.get(part.task_id)
          const who = `The assistant called ${part.tool}${id === undefined ? "" : ` (remote task ${id})`}`
          return [{ who, text: JSON.stringify(part.input), isResult: false }]
        }
        case "tool_result": {
          const who = `${tools.get(part.task_id) ?? "A tool"} returned (${part.state})`
          return [{ who, text: part.content, isResult: true }]
        }
        case "reasoning":
          return []
      }
    })
  )
}

/** Shortens the parts that may be shortened until all parts fit, or until they cannot become shorter. */
const shorten = (
  count: CountTokens,
  told: ReadonlyArray<Told>,
  room: number,
  isLong: (one: Told) => boolean
): ReadonlyArray<Told> => {
  const sizes = told.map(({ who, text }) => count(`${who}:\n${text}\n\n`))
  const long = sizes.filter((_, at) => told.slice(at, at + 1).some(isLong))
  const others = sizes.reduce((sum, size) => sum + size, 0) - long.reduce((sum, size) => sum + size, 0)
  const share = Math.max(leastTold, fairShare(long, room - others))
  return told.map((one, at) =>
    isLong(one) && (sizes[at] ?? 0) > share ? { ...one, text: toTokens(count, one.text, share - leastTold / 4) } : one
  )
}

/**
 * A history as text of at most so many tokens, in its order. If it is too long, results lose their middle first, then messages,
 * and then the middle of the history goes.
 */
export const transcript = (
  count: CountTokens,
  messages: ReadonlyArray<Entry>,
  remote: RemoteTasks,
  room: number
): string => {
  const told = shorten(
    count,
    shorten(count, tell(messages, remote), room, ({ isResult }) => isResult),
    room,
    () => true
  )
  return toTokens(count, told.map(({ who, text }) => `${who}:\n${text}`).join("\n\n"), room)
}
