import type { Message } from "@bowline/client"

type MessagePart = Message["parts"][number]

/** A history out of who said what in which plan. */
export const historyOf = (
  entries: ReadonlyArray<
    readonly [plan_id: string, role: Message["role"], parts: ReadonlyArray<MessagePart>, more?: Partial<Message>]
  >
): ReadonlyArray<Message> =>
  entries.map(([plan_id, role, parts, more], index) => ({
    message_id: `message_${index + 1}`,
    seq: index + 1,
    role,
    parts,
    plan_id,
    created_at: new Date(Date.UTC(2026, 0, 1, 0, 0, index)).toISOString(),
    compacted: false,
    ...more
  }))

export const text = (text: string): MessagePart => ({ type: "text", text })

export const call = (task_id: string, tool: string, input: MessageInput = {}): MessagePart => ({
  type: "tool_call",
  task_id,
  tool,
  input
})

type MessageInput = Extract<MessagePart, { readonly type: "tool_call" }>["input"]

export const result = (task_id: string, content: string): MessagePart => ({
  type: "tool_result",
  task_id,
  state: "completed",
  content
})
