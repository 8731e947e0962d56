import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Duration } from "effect"

/** The line that shows a frame to somebody who waits for the answer, if it is worth one. */
export const describe = (frame: SseFrame): string | undefined => {
  switch (frame.event) {
    case "session":
      return `session ${frame.data.external_session_id ?? frame.data.session_id}${frame.data.created ? "" : ", resumed"}`
    case "queued":
      return `waiting for the session: place ${frame.data.position}`
    case "step":
      return `step ${frame.data.step}`
    case "task.started":
      return `→ ${frame.data.tool}`
    case "task.progress":
      return `  ${frame.data.state}${frame.data.message === undefined ? "" : `: ${frame.data.message}`}`
    case "task.finished": {
      const { duration_ms, error, state } = frame.data
      return `← ${state}${error === undefined ? "" : `: ${error.message}`} (${Duration.format(Duration.millis(duration_ms))})`
    }
    case "approval.requested":
      return `? ${frame.data.tool} waits for an approval until ${frame.data.expires_at}`
    case "approval.resolved": {
      const { by, decision, note } = frame.data
      return `  ${decision} by ${by}${note === undefined ? "" : `: ${note}`}`
    }
    case "notice":
      return frame.data.message
    default:
      return undefined
  }
}
