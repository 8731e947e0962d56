import type { Entry } from "@bowline/domain/plan/Inbox"
import type { Message } from "@bowline/domain/session/Message"

/** Something that was added to a plan, and what its sender was answered; 0 for no answer. */
export interface Note {
  readonly text: string
  status: number
}

/** Everything that was accepted for a plan is taken once, or named by its last frame; what was refused is nowhere. */
export const notesAreOnce = (
  notes: ReadonlyArray<Note>,
  entries: ReadonlyArray<Entry>,
  messages: ReadonlyArray<Message>,
  lastFrame: string
): ReadonlyArray<string> => {
  const said = messages.flatMap(({ parts, role }) =>
    role === "user" ? parts.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
  )
  const ofNotes = notes.flatMap(({ status, text }) => {
    const own = entries.filter((entry) => entry.text === text)
    if (status !== 0 && own.length !== (status === 202 ? 1 : 0))
      return [`${text}: ${status}, and ${own.length} entries`]
    const count = said.filter((one) => one === text).length
    return count === own.filter(({ state }) => state === "taken").length ? [] : [`${text}: in ${count} messages`]
  })
  const ofEntries = entries.flatMap(({ entry_id, state, text, type }) => {
    const isNamed = lastFrame.includes(entry_id)
    return state === "taken"
      ? isNamed
        ? [`${type} ${text} is taken, and named`]
        : []
      : state === "untaken" && isNamed
        ? []
        : [`${type} ${text} is ${state}`]
  })
  return [...ofNotes, ...ofEntries]
}
