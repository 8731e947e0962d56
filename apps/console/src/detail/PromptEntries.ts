import type { Message, PlanView } from "@bowline/client"

/** One part of a prompt, in its order. */
export interface PromptEntry {
  readonly role: "summary" | "user" | "assistant" | "tool"
  readonly text: string
  readonly isOwn: boolean
}

const partText = (part: Message["parts"][number]): string => {
  switch (part.type) {
    case "text":
      return part.partial === true ? "" : part.text
    case "reasoning":
      return part.text === "" ? "" : `[reasoning]\n${part.text}`
    case "tool_call":
      return `[calls ${part.tool}]\n${part.raw_input ?? JSON.stringify(part.input, null, 2)}`
    case "tool_result":
      return `[${part.state}]\n${part.content}`
    case "file":
      return `[file ${part.name ?? ""} ${part.media_type}]`
  }
}

const textOf = ({ parts }: Message): string =>
  parts
    .map(partText)
    .filter((text) => text !== "")
    .join("\n\n")

/**
 * What the history held when a step asked its model: the messages before the step's own answer, with the summary in place of those that it
 * replaces. A message that was only shown, since its attempt broke, is never sent.
 */
export const promptEntries = (
  messages: ReadonlyArray<Message>,
  view: Pick<PlanView, "planId" | "compactions">,
  step: number,
  summary: string | null
): ReadonlyArray<PromptEntry> => {
  const sent = messages.filter((message) => textOf(message) !== "")
  const own = sent.filter(({ plan_id }) => plan_id === view.planId)
  const answer = own.filter(({ role }) => role === "assistant")[step - 1]
  const last = answer?.seq ?? (own.at(-1)?.seq ?? 0) + 1
  const before = sent.filter(({ seq }) => seq < last)
  const made = view.compactions.findLast(({ afterStep }) => afterStep < step)
  // A summary that has taken in messages of this plan, and that this step did not have, came later.
  const isLater = made === undefined && own.some(({ compacted }) => compacted)
  const stood = made?.summary ?? (isLater ? null : summary)
  const entries = before
    .filter(({ compacted }) => !compacted || stood === null)
    .map((message): PromptEntry => ({
      role: message.role,
      text: textOf(message),
      isOwn: message.plan_id === view.planId
    }))
  return stood === null ? entries : [{ role: "summary", text: stood, isOwn: false }, ...entries]
}
