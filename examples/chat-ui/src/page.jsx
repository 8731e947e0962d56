import { useChat } from "@ai-sdk/react"
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai"
import { StrictMode, useEffect, useState } from "react"
import { createRoot } from "react-dom/client"

// The chat stands in the address, so that a reload comes back to it. It is the session of the gateway, too.
const address = new URL(location.href)
const id = address.searchParams.get("chat") ?? crypto.randomUUID()
address.searchParams.set("chat", id)
history.replaceState(null, "", address)

const transport = new DefaultChatTransport({
  api: "/ui/chat",
  // The agents of the demo. Each of their calls waits until the user agrees.
  body: { bowline: { preset: "demo", preferences: { approval: "always" } } }
})

const Call = ({ part, decide }) => (
  <p>
    <code>{part.toolName}</code> {part.state}
    {part.state === "output-available" && <q>{String(part.output)}</q>}
    {part.state === "output-error" && `: ${part.errorText}`}
    {part.state === "approval-requested" && (
      <>
        <button onClick={() => decide({ id: part.approval.id, approved: true })}>Approve</button>
        <button onClick={() => decide({ id: part.approval.id, approved: false })}>Reject</button>
      </>
    )}
  </p>
)

const Chat = () => {
  const [question, setQuestion] = useState("Ask prompt and slow what a bowline is.")
  const { addToolApprovalResponse, error, messages, regenerate, sendMessage, status, stop } = useChat({
    id,
    transport,
    messages: JSON.parse(sessionStorage.getItem(id) ?? "[]"),
    // After a reload the page asks for what still runs, and gets it from its start.
    resume: true,
    // When the user has answered all approvals, the next request takes the answers to the gateway.
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses
  })
  useEffect(() => sessionStorage.setItem(id, JSON.stringify(messages)), [messages])
  const isBusy = status === "submitted" || status === "streaming"
  const ask = (event) => {
    event.preventDefault()
    void sendMessage({ text: question })
  }
  return (
    <>
      {messages.map((message) => (
        <section key={message.id} aria-label={message.role}>
          {message.parts.map((part, index) => {
            if (part.type === "text") return <p key={index}>{part.text}</p>
            return part.type === "dynamic-tool" ? (
              <Call key={index} part={part} decide={addToolApprovalResponse} />
            ) : null
          })}
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={ask}>
        <input aria-label="Question" size="60" value={question} onChange={({ target }) => setQuestion(target.value)} />
        <button disabled={isBusy}>Ask</button>
        <button type="button" disabled={!isBusy} onClick={stop}>
          Stop
        </button>
        <button type="button" disabled={isBusy || messages.length === 0} onClick={() => regenerate()}>
          Ask again
        </button>
        <output>{status}</output>
      </form>
    </>
  )
}

createRoot(document.querySelector("#chat")).render(
  <StrictMode>
    <Chat />
  </StrictMode>
)
