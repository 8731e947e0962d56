import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Duration } from "effect"
import { oneLine, toJson } from "./TerminalText.ts"

/** `16ms`, `2s`, `1m 20s`. */
const lasted = (milliseconds: number): string =>
  milliseconds < 1_000 ? `${milliseconds}ms` : Duration.format(Duration.seconds(Math.trunc(milliseconds / 1_000)))

/** What a frame says to somebody who watches the plan, if it is worth a line. The tools are those of open tasks. */
export const describe = (frame: SseFrame, tools: ReadonlyMap<string, string> = new Map()): string | undefined => {
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
      return `${state === "completed" ? "✓" : "✗"} ${tools.get(task_id) ?? task_id} ${ended} (${lasted(duration_ms)})`
    }
    case "approval.requested": {
      const { expires_at, input, tool } = frame.data
      return `? ${tool} waits for an approval until ${expires_at}: ${toJson(input)}`
    }
    case "approval.resolved": {
      const { by, decision, note } = frame.data
      return `${decision === "approve" ? "✓" : "✗"} ${decision} by ${by}${note === undefined ? "" : `: ${note}`}`
    }
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

/** Keeps what a plan is doing, frame by frame, for a line of status. */
export const make = (started: number) => {
  const tools = new Map<string, string>()
  const waiting = new Map<string, string>()
  let step = 0
  let calls = 0
  let doing = "starting"
  let isCut = false

  const note = (frame: SseFrame): void => {
    isCut = false
    switch (frame.event) {
      case "queued":
        doing = `waiting for the session, place ${frame.data.position}`
        return
      case "step":
        step = frame.data.step
        doing = "asking the model"
        return
      case "reasoning.delta":
        doing = "thinking"
        return
      case "text.delta":
        doing = "answering"
        return
      case "retry":
        doing = `trying again: ${frame.data.error.code}`
        return
      case "task.started":
        calls++
        waiting.delete(frame.data.task_id)
        tools.set(frame.data.task_id, frame.data.tool)
        return
      case "task.finished":
        tools.delete(frame.data.task_id)
        doing = "reading the results"
        return
      case "approval.requested":
        waiting.set(frame.data.task_id, frame.data.tool)
        return
      case "approval.resolved":
        waiting.delete(frame.data.task_id)
        return
      default:
        return
    }
  }

  const stage = (): string => {
    if (isCut) return "reconnecting"
    if (waiting.size > 0) return `waiting for an approval: ${[...waiting.values()].join(", ")}`
    return tools.size > 0 ? [...tools.values()].join(", ") : doing
  }

  return {
    tools,
    note,
    /** The stream is cut, and is not resumed yet. */
    onCut: () => {
      isCut = true
    },
    /** What comes first stays longest on a narrow terminal. */
    status: (now: number): string => {
      const elapsed = now - started < 1_000 ? "0s" : lasted(now - started)
      const counts = [...(step === 0 ? [] : [`step ${step}`]), ...(calls === 0 ? [] : [`calls ${calls}`])]
      const sign = spinner[Math.trunc(now / 100) % spinner.length] ?? ""
      return oneLine(`${sign} ${elapsed} · ${[stage(), ...counts].join(" · ")}`)
    }
  }
}
