import type { Message } from "@bowline/client"
import { planHref } from "../route/Route.ts"
import { pretty, shortId } from "../text/Format.ts"
import { Markdown } from "../text/Markdown.tsx"

const Part = ({ isQuestion, part }: { readonly part: Message["parts"][number]; readonly isQuestion: boolean }) => {
  switch (part.type) {
    case "text":
      return (
        <>
          {part.partial === true ? <p class="dim">Cut short:</p> : null}
          {isQuestion ? <p class="plain">{part.text}</p> : <Markdown text={part.text} />}
        </>
      )
    case "reasoning":
      return part.text === "" ? null : (
        <details>
          <summary>Reasoning</summary>
          <p class="plain dim">{part.text}</p>
        </details>
      )
    case "tool_call":
      return (
        <details>
          <summary>
            Calls <code>{part.tool}</code>
          </summary>
          <pre tabIndex={0}>{pretty(part.raw_input ?? part.input)}</pre>
        </details>
      )
    case "tool_result":
      return (
        <details>
          <summary>
            Result: <span class="code">{part.state}</span>
          </summary>
          <pre tabIndex={0}>{part.content}</pre>
        </details>
      )
    case "file":
      return (
        <p class="dim">
          File {part.name ?? ""} ({part.media_type})
        </p>
      )
  }
}

const roles = { user: "Question", assistant: "Planner", tool: "Tools" } as const

/** One entry of a session's history. */
export const MessageEntry = ({
  message,
  onRevert
}: {
  readonly message: Message
  /** Drops what came after it; absent where nothing does. */
  readonly onRevert?: (() => void) | undefined
}) => (
  <li class={`message from-${message.role}`}>
    <header>
      <strong>{roles[message.role]}</strong>
      <a class="dim" href={planHref(message.plan_id)}>
        {shortId(message.plan_id)}
      </a>
      <time class="dim" dateTime={message.created_at}>
        {new Date(message.created_at).toLocaleString()}
      </time>
      {message.compacted ? <span class="dim">in the summary</span> : null}
      {onRevert === undefined ? null : (
        <button type="button" class="quiet" onClick={onRevert}>
          Revert to here
        </button>
      )}
    </header>
    {message.parts.map((part) => (
      <Part part={part} isQuestion={message.role === "user"} />
    ))}
  </li>
)
