import type { Segment } from "../ui/Dialect.ts"

interface ToolCall {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A message of the thread, as far as its events need it. What the client has sent is repeated as it is. */
export interface AgUiMessage {
  readonly id: string
  readonly role: string
  readonly toolCalls?: ReadonlyArray<{ readonly id: string }>
}

/** A message that the run has made. */
interface Made {
  readonly id: string
  readonly role: "assistant" | "reasoning"
  readonly segment?: Segment
  readonly toolCalls: Array<ToolCall>
}

/** The messages that a run has made, to tell the client all messages of the thread where one has to go. */
export class AgUiThread {
  #sent: ReadonlyArray<AgUiMessage>
  readonly #sentCalls: ReadonlySet<string>
  readonly #sentIds: ReadonlySet<string>
  #made: Array<Made | (AgUiMessage & { readonly role: "tool" })> = []

  constructor(sent: ReadonlyArray<AgUiMessage>) {
    this.#sent = sent
    this.#sentIds = new Set(sent.map(({ id }) => id))
    this.#sentCalls = new Set(sent.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id)))
  }

  /** Whether the client has sent this message, or this call, itself. */
  has(id: string): boolean {
    return this.#sentIds.has(id) || this.#sentCalls.has(id)
  }

  add(id: string, segment: Segment): void {
    this.#made.push({ id, role: segment.kind === "text" ? "assistant" : "reasoning", segment, toolCalls: [] })
  }

  addCall(parentId: string, call: ToolCall): void {
    const parent = this.#made.find((made): made is Made => made.role === "assistant" && made.id === parentId)
    if (parent === undefined) this.#made.push({ id: parentId, role: "assistant", toolCalls: [call] })
    else parent.toolCalls.push(call)
  }

  addResult(message: AgUiMessage & { readonly role: "tool" }): void {
    this.#made.push(message)
  }

  /** Removes what is taken back. The client may have sent what an earlier run has shown of it. */
  remove(segments: ReadonlyArray<Segment>, ids: ReadonlyArray<string>): void {
    this.#sent = this.#sent.filter(({ id }) => !ids.includes(id))
    this.#made = this.#made.filter((made) => !("segment" in made) || !segments.some((one) => one === made.segment))
  }

  get all(): ReadonlyArray<AgUiMessage> {
    const made = this.#made.flatMap((message): ReadonlyArray<AgUiMessage> => {
      if (this.#sentIds.has(message.id)) return []
      if (message.role === "tool") return [message]
      const { id, role, segment, toolCalls } = message
      return [
        {
          id,
          role,
          ...(segment !== undefined && { content: segment.text }),
          ...(toolCalls.length > 0 && { toolCalls })
        }
      ]
    })
    return [...this.#sent, ...made]
  }
}
