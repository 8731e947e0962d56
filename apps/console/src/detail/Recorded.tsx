import { type Frame, isPlanFrame, type Message, type PlanView } from "@bowline/client"
import { bowline } from "../gateway/Gateway.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { Block } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
import { count, counted } from "../text/Format.ts"
import { Loaded } from "./Loaded.tsx"
import { type PromptEntry, promptEntries } from "./PromptEntries.ts"

/** No more messages, and no more frames, than a person looks through. */
const mostMessages = 2_000
const mostFrames = 2_000

/** The history of the plan's session up to the plan's end. */
const readHistory = async (
  { planId, sessionId }: Pick<PlanView, "planId" | "sessionId">,
  signal: AbortSignal
): Promise<ReadonlyArray<Message>> => {
  const messages: Array<Message> = []
  for await (const message of bowline.sessions.messages(sessionId ?? "", { limit: 200 }, { signal })) {
    const isBehind = messages.at(-1)?.plan_id === planId && message.plan_id !== planId
    if (isBehind || messages.length >= mostMessages) break
    messages.push(message)
  }
  return messages
}

const roles = { summary: "Summary", user: "User", assistant: "Model", tool: "Tool" } as const

const Entry = ({ entry: { isOwn, role, text } }: { readonly entry: PromptEntry }) => (
  <details class={`said-by from-${role}`}>
    <summary>
      <strong>{roles[role]}</strong> <span class="dim">{counted(text.length, "character")}</span>
      {isOwn ? null : <span class="dim"> · of an earlier plan</span>}
    </summary>
    <CopyButton label="Copy" what={`Copy what ${role} said`} text={text} />
    <pre tabIndex={0}>{text}</pre>
  </details>
)

/** The prompt of a step, by role. */
export const Prompt = ({ live, step }: { readonly live: FollowedPlan; readonly step: number }) => {
  const view = live.view.value
  const load = async (signal: AbortSignal) => {
    const [messages, session] = await Promise.all([
      readHistory(view, signal),
      bowline.sessions.get(view.sessionId ?? "", { signal })
    ])
    return promptEntries(messages, view, step, session.summary)
  }
  return (
    <Loaded title="Prompt" load={load}>
      {(entries) => (
        <>
          <p class="dim">
            The history that this step was asked with, as it is stored. Instructions and declared tools stood in front
            of it; of those, and of how results were wrapped or shortened, no copy is kept.
          </p>
          {entries.map((entry) => (
            <Entry entry={entry} />
          ))}
          <CopyButton label="Copy all" what="Copy the prompt" text={JSON.stringify(entries, null, 2)} />
        </>
      )}
    </Loaded>
  )
}

/** What the model was told of a call. */
export const Told = ({ live, taskId }: { readonly live: FollowedPlan; readonly taskId: string }) => (
  <Loaded
    title="What the model read of it"
    load={async (signal) =>
      (await readHistory(live.view.value, signal))
        .flatMap(({ parts }) => parts)
        .find((part) => part.type === "tool_result" && part.task_id === taskId)
    }
  >
    {(part) =>
      part?.type === "tool_result" ? (
        <Block title="Result for the model">{part.content}</Block>
      ) : (
        <p class="dim">Nothing of it is in the history.</p>
      )
    }
  </Loaded>
)

/** The plan's frames up to now, those that are wanted. */
const readFrames = async (live: FollowedPlan, wants: (frame: Frame) => boolean, signal: AbortSignal) => {
  const { lastId, planId } = live.view.value
  const leaving = new AbortController()
  const found: Array<Frame> = []
  try {
    for await (const frame of bowline.attach(planId ?? "", { signal: AbortSignal.any([signal, leaving.signal]) })) {
      if (wants(frame)) found.push(frame)
      if (frame.id >= lastId) break
    }
  } finally {
    leaving.abort()
  }
  return found
}

/** Which frames an attempt or a call has. */
export const ofAttempt =
  (step: number, attempt: number) =>
  (frame: Frame): boolean =>
    isPlanFrame(frame) &&
    "step" in frame.data &&
    frame.data.step === step &&
    "attempt" in frame.data &&
    frame.data.attempt === attempt

export const ofTask =
  (taskId: string) =>
  (frame: Frame): boolean =>
    isPlanFrame(frame) && "task_id" in frame.data && frame.data.task_id === taskId

/** The frames themselves, as the stream sent them. */
export const RawFrames = ({
  live,
  wants
}: {
  readonly live: FollowedPlan
  readonly wants: (frame: Frame) => boolean
}) => (
  <Loaded title="Raw frames" load={(signal) => readFrames(live, wants, signal)}>
    {(frames) => (
      <Block
        title={counted(frames.length, "frame")}
        note={frames.length > mostFrames ? `the first ${count(mostFrames)}` : undefined}
      >
        {frames
          .slice(0, mostFrames)
          .map(({ data, event, id }) => `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}`)
          .join("\n\n")}
      </Block>
    )}
  </Loaded>
)
