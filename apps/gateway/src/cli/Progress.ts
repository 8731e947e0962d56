import type { PlanFrame, PlanView } from "@bowline/client"
import { Duration } from "effect"
import { oneLine, toJson } from "./TerminalText.ts"

/** `16ms`, `2s`, `1m 20s`. */
const lasted = (milliseconds: number): string =>
  milliseconds < 1_000 ? `${milliseconds}ms` : Duration.format(Duration.seconds(Math.trunc(milliseconds / 1_000)))

const textOf = ({ entries }: PlanView, entryId: string): string =>
  entries.find((entry) => entry.entryId === entryId)?.text ?? entryId

/** What a frame says to somebody who watches the plan, if it is worth a line. The view is the one in front of it. */
export const describe = (frame: PlanFrame, view: PlanView): string | undefined => {
  switch (frame.event) {
    case "session": {
      const { created, external_session_id, plan_id, session_id } = frame.data
      return `${plan_id} in session ${external_session_id ?? session_id}${created ? "" : ", continued"}`
    }
    case "retry": {
      const { delay_ms, error, model } = frame.data
      return `↻ ${error.code}: ${error.message}; asks ${model} in ${lasted(delay_ms)}`
    }
    case "task.finished": {
      const { duration_ms, error, state, task_id } = frame.data
      const ended = error === undefined ? state : `${state}: ${error.message}`
      const tool = view.tasks.find(({ taskId }) => taskId === task_id)?.tool ?? task_id
      return `${state === "completed" ? "✓" : "✗"} ${tool} ${ended} (${lasted(duration_ms)})`
    }
    case "approval.requested": {
      const { data = null, expires_at, input, tool, why } = frame.data
      const before =
        why === "maybe_done" ? `. An earlier call may have done the same, approve if it has not: ${toJson(data)}` : ""
      return `? ${tool} waits for an approval until ${expires_at}: ${toJson(input)}${before}`
    }
    case "approval.resolved": {
      const { by, decision, note } = frame.data
      return `${decision === "approve" ? "✓" : "✗"} ${decision} by ${by}${note === undefined ? "" : `: ${note}`}`
    }
    case "inbox.accepted":
      return `» ${frame.data.by}: ${frame.data.text}`
    case "inbox.taken":
      return `✓ taken in step ${frame.data.step}: ${textOf(view, frame.data.entry_id)}`
    case "inbox.moved": {
      const { entry_id, moved_to } = frame.data
      return `→ ${moved_to === null ? "taken back" : `moved to ${moved_to}`}: ${textOf(view, entry_id)}`
    }
    case "waiting": {
      const { agent, expires_at, input, kind, message, tool, url } = frame.data
      const who = agent ?? tool ?? "the plan"
      if (kind === "result") return `? ${tool} waits for its result until ${expires_at}: ${toJson(input)}`
      const what = [message, url].filter((one) => one !== undefined).join(" ")
      return `? ${who} waits for ${kind === "answer" ? "an answer" : "an account"} until ${expires_at}: ${what}`
    }
    case "parked": {
      const { wakes_at } = frame.data
      return `… parked${wakes_at === null ? "" : ` until ${wakes_at}, or`} until somebody answers`
    }
    case "woken":
      return `… goes on: ${frame.data.because}`
    case "compaction": {
      const { messages_compacted, tokens_after, tokens_before } = frame.data
      return `${messages_compacted} messages compacted: ${tokens_before} → ${tokens_after} tokens`
    }
    case "notice":
      return `! ${frame.data.message}`
    default:
      return undefined
  }
}

const spinner = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

/** What the plan is doing, in a few words. */
const doing = ({ approvals, queue, stage, steps, tasks }: PlanView): string => {
  const waiting = approvals.filter(({ endedAt }) => endedAt === null)
  if (waiting.length > 0) return `waiting for an approval: ${waiting.map(({ tool }) => tool).join(", ")}`
  const attempt = steps.at(-1)?.attempts.at(-1)
  switch (stage) {
    case "queue":
      return `waiting for the session, place ${queue?.position ?? 1}`
    case "client":
      return `waiting for somebody: ${tasks.flatMap(({ endedAt, tool }) => (endedAt === null ? [tool] : [])).join(", ")}`
    case "tool":
      return tasks.flatMap(({ endedAt, tool }) => (endedAt === null ? [tool] : [])).join(", ")
    case "backoff":
      return `trying again: ${attempt?.retry?.error.code ?? ""}`
    case "provider":
      if (attempt?.text) return "answering"
      return attempt?.reasoning ? "thinking" : "asking the model"
    default:
      return steps.length === 0 ? "starting" : "reading the results"
  }
}

/** A line of status. What comes first stays longest on a narrow terminal. */
export const status = (view: PlanView, elapsedMs: number, isCut: boolean): string => {
  const { steps, tasks } = view
  const elapsed = elapsedMs < 1_000 ? "0s" : lasted(elapsedMs)
  const counts = [
    ...(steps.length === 0 ? [] : [`step ${steps.length}`]),
    ...(tasks.length === 0 ? [] : [`calls ${tasks.length}`])
  ]
  const sign = spinner[Math.trunc(elapsedMs / 100) % spinner.length] ?? ""
  return oneLine(`${sign} ${elapsed} · ${[isCut ? "reconnecting" : doing(view), ...counts].join(" · ")}`)
}
