import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  type ChatTransport,
  DefaultChatTransport,
  getToolName,
  isToolUIPart,
  type UIMessage
} from "ai"
import * as six from "ai-6"
import { assert } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { type RunningGateway, send } from "../../http/RunningGateway.ts"

/** What `useChat` keeps in React's state. */
const stateOf = (messages: ReadonlyArray<UIMessage>): ChatState<UIMessage> => ({
  status: "ready",
  error: undefined,
  messages: [...messages],
  pushMessage(message) {
    this.messages = [...this.messages, message]
  },
  popMessage() {
    this.messages = this.messages.slice(0, -1)
  },
  replaceMessage(index, message) {
    this.messages = this.messages.with(index, structuredClone(message))
  },
  snapshot: (thing) => structuredClone(thing)
})

class Chat extends AbstractChat<UIMessage> {
  constructor({ messages = [], ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: stateOf(messages) })
  }
}

/** That of AI SDK 6, whose messages have the same parts. */
class FormerChat extends six.AbstractChat<six.UIMessage> {
  constructor({ messages = [], ...init }: six.ChatInit<six.UIMessage>) {
    super({ ...init, state: stateOf(messages) as six.ChatState<six.UIMessage> })
  }
}

/** The same page with AI SDK 6. */
export const openFormer = (
  url: string,
  { body, bowline, headers = {}, ...init }: NonNullable<Parameters<typeof open>[1]> = {}
): Chat => {
  const said = { ...body, ...(bowline && { bowline }) }
  const transport = new six.DefaultChatTransport({ api: `${url}/ui/chat`, headers, body: said })
  return new FormerChat({ id: "chat", ...(init as six.ChatInit<six.UIMessage>), transport }) as unknown as Chat
}

/** A page with the AI SDK's chat, as it is. `bowline` is what the page says in Bowline's own words. */
export const open = (
  url: string,
  {
    body,
    bowline,
    headers = {},
    ...init
  }: ChatInit<UIMessage> & { body?: object; bowline?: object; headers?: Record<string, string> } = {}
): Chat =>
  openWith(
    new DefaultChatTransport({
      api: `${url}/ui/chat`,
      headers,
      ...((body ?? bowline) && { body: { ...body, ...(bowline && { bowline }) } })
    }),
    init
  )

/** The same page with another transport. */
export const openWith = (transport: ChatTransport<UIMessage>, init: ChatInit<UIMessage> = {}): Chat =>
  new Chat({ id: "chat", ...init, transport })

export const ask = (chat: Chat, text = "?") => Effect.promise(() => chat.sendMessage({ text }))

/** Waits until the chat is so. */
export const until = (chat: Chat, holds: (chat: Chat) => boolean) =>
  Effect.sync(() => holds(chat)).pipe(Effect.repeat({ until: (isSo) => isSo, schedule: Schedule.spaced("10 millis") }))

/** What a message shows, part by part. */
export const shown = (message: UIMessage | undefined): ReadonlyArray<string> =>
  (message?.parts ?? []).flatMap((part) => {
    if (part.type === "text" || part.type === "reasoning") return [`${part.type}: ${part.text}`]
    if (!isToolUIPart(part)) return []
    const said = part.state === "output-available" ? ` ${JSON.stringify(part.output)}` : ""
    return [`${getToolName(part)}: ${part.state}${said}${part.state === "output-error" ? ` ${part.errorText}` : ""}`]
  })

export const lastOf = (chat: Chat): ReadonlyArray<string> => shown(chat.lastMessage)

/** The plan that the last answer is about. */
export const planOf = (message: { readonly metadata?: unknown } | undefined): string =>
  (message?.metadata as { readonly planId: string } | undefined)?.planId ?? assert.fail("It has no plan")

export const settled = (url: string, plan: string) =>
  send(`${url}/plans/${plan}`).pipe(
    Effect.map(({ body }) => body),
    Effect.repeat({
      until: ({ state }) => state !== "queued" && state !== "running",
      schedule: Schedule.spaced("20 millis")
    })
  )

export const lastBody = ({ requests }: RunningGateway["provider"]) =>
  Effect.map(requests.all, (all) => all.at(-1)?.body ?? "")

/** The conversation that the last request to the provider has told. */
export const told = (provider: RunningGateway["provider"]) =>
  Effect.map(lastBody(provider), (body) =>
    (
      JSON.parse(body) as { readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }> }
    ).messages
      .filter(({ role }) => role !== "system")
      .map(({ content }) => content)
  )
