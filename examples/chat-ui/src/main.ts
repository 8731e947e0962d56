import { startDemo } from "@bowline/testing/DemoProcess"
import { DefaultChatTransport, readUIMessageStream, type UIMessage } from "ai"
import assert from "node:assert/strict"
import { type OutgoingHttpHeaders, request } from "node:http"
import { servePage } from "./PageServer.ts"

/** `fetch` would not send another host. */
const statusFor = (url: string, headers: OutgoingHttpHeaders) =>
  new Promise<number | undefined>((answered, failed) => {
    const asked = request(`${url}/ui/chat/knots/stream`, { headers }, (answer) => {
      answer.resume()
      answered(answer.statusCode)
    })
    asked.on("error", failed).end()
  })

const gateway = await startDemo(new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url))
const page = await servePage(gateway.url)
try {
  // What a browser gets. A test of the console opens the page in one.
  const html = await (await fetch(page.url)).text()
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(html)?.[1]
  assert.equal((await fetch(`${page.url}${script}`)).headers.get("content-type"), "text/javascript")

  // Another page that has this address under its own name, or asks across origins, does not get at the gateway's key.
  assert.equal(await statusFor(page.url, { host: "evil.example" }), 403)
  assert.equal(await statusFor(page.url, { origin: "http://evil.example" }), 403)

  // What the page's transport does behind useChat.
  const transport = new DefaultChatTransport({
    api: `${page.url}/ui/chat`,
    body: { bowline: { preset: "demo", preferences: { approval: "always" } } }
  })
  const messages: Array<UIMessage> = []
  const send = async () => {
    const stream = await transport.sendMessages({
      chatId: "knots",
      messages,
      trigger: "submit-message",
      messageId: undefined,
      abortSignal: undefined
    })
    const last = messages.at(-1)
    const message = last?.role === "assistant" ? last : undefined
    for await (const answer of readUIMessageStream({ stream, ...(message && { message }) })) {
      messages.splice(messages.at(-1)?.id === answer.id ? -1 : messages.length, 1, answer)
    }
  }
  const question = { type: "text" as const, text: "Ask prompt what a bowline is." }
  messages.push({ id: "1", role: "user", parts: [question] })
  await send()

  // The call waits for the user. The stream has ended; the plan has not.
  const waiting = messages.at(-1)?.parts.find((part) => part.type === "dynamic-tool")
  assert.equal(waiting?.state, "approval-requested")
  assert.ok(await transport.reconnectToStream({ chatId: "knots" }))

  // The next request takes the answer along, and the same message goes on.
  Object.assign(waiting, { state: "approval-responded", approval: { id: waiting.approval.id, approved: true } })
  await send()
  assert.equal(messages.length, 2)
  const [call, text] = messages[1]?.parts.filter(({ type }) => type === "dynamic-tool" || type === "text") ?? []
  assert.ok(call?.type === "dynamic-tool" && call.state === "output-available")
  assert.ok(text?.type === "text")
  assert.match(text.text, /“Demo answer, given at once, to: Ask prompt what a bowline is\.”/)
  process.stdout.write(`${text.text}\n`)
  assert.equal(await transport.reconnectToStream({ chatId: "knots" }), null)
} finally {
  page.stop()
  await gateway.stop()
}
