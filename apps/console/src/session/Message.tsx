import type { Message } from "@bowline/client"
import { StoredFile } from "../file/StoredFiles.tsx"
import { now } from "../gateway/GatewayClock.ts"
import { relative } from "../text/Format.ts"
import { Arguments } from "../call/Arguments.tsx"
import { Block } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
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
      return <Arguments title={`Calls ${part.tool}`} input={part.raw_input ?? part.input} schema={null} />
    case "tool_result":
      return (
        <Block title="Result" note={part.state}>
          {part.content}
        </Block>
      )
    case "file":
      return "file_id" in part ? (
        <StoredFile file={part} />
      ) : (
        <p class="dim">
          File {part.name ?? ""} ({part.media_type})
        </p>
      )
  }
}

const roles = { user: "Question", assistant: "Answer", tool: "Tool" } as const

const saidIn = ({ parts }: Message): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")

const roleOf = ({ parts, role }: Message): string =>
  parts.some(({ type }) => type === "tool_call") ? "Model" : roles[role]

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
      <strong>{roleOf(message)}</strong>
      <time class="dim" dateTime={message.created_at} title={new Date(message.created_at).toLocaleString()}>
        {relative(Date.parse(message.created_at), now())}
      </time>
      <span class="grow" />
      {message.compacted ? <span class="dim">in the summary</span> : null}
      {saidIn(message) === "" ? null : <CopyButton label="Copy" what="Copy the message" text={saidIn(message)} />}
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
