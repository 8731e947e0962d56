import type { PeerQuestion } from "@bowline/runtime/remote/PeerClient"
import type { Message, Part, Task } from "./Task.ts"
import { digestOf, textOf } from "./Words.ts"

/** Characters of a question, and of its data as JSON: larger data are part of its text. */
const maxText = 65_536

const messageOf = ({ history, message }: Task): Message | undefined =>
  message ?? history.findLast(({ fromAgent }) => fromAgent)

const isData = (part: Part): part is Part & { readonly _tag: "Data" } => part._tag === "Data"

const cut = (text: string): string => (text.length <= maxText ? text : `${text.slice(0, maxText)}…`).toWellFormed()

/** Tells a question from the others of its task. Without the id of its message two questions with the same words look the same. */
export const markOf = (task: Task): string => {
  const message = messageOf(task)
  return message?.id == null ? `text:${digestOf(textOf(message?.parts ?? []))}` : `id:${digestOf(message.id)}`
}

/** Whether the peer still shows a question that it has the answer to. Only the id of its message can tell that. */
export const isStill = (task: Task, mark: string | undefined): boolean =>
  mark?.startsWith("id:") === true && markOf(task) === mark

/** What the peer asks: its words, and its data beside them. */
export const questionOf = (task: Task): PeerQuestion => {
  const parts = messageOf(task)?.parts ?? []
  const data = parts.filter(isData).map(({ data }) => data)
  const [only = null, ...others] = data
  const shown = others.length === 0 ? only : data
  const mark = markOf(task)
  if (data.length === 0 || JSON.stringify(shown).length > maxText) {
    return { mark, message: cut(textOf(parts)) || "The peer asks for input" }
  }
  return { mark, message: cut(textOf(parts.filter((part) => !isData(part)))) || "The peer asks for input", data: shown }
}
