import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"

/** Tasks that are open, by their id: a frame of progress does not name its tool. */
type Tools = Map<string, string>

const messageOf = (frame: PlanFrame, tools: Tools): string | undefined => {
  const told = toEvent(frame)
  switch (told.event) {
    case "queued":
      return "waiting for the session"
    case "step":
      return `step ${told.data.step}`
    case "retry":
      return `asking ${told.data.model} again`
    case "task.started":
      tools.set(told.data.task_id, told.data.tool)
      return `calling ${told.data.tool}`
    case "task.progress":
      return `${tools.get(told.data.task_id) ?? "a tool"}: ${told.data.message ?? told.data.state}`
    case "task.finished":
      return `${tools.get(told.data.task_id) ?? "a tool"}: ${told.data.state}`
    default:
      return undefined
  }
}

const isTold: ReadonlySet<PlanFrame["event"]> = new Set([
  "queued",
  "step",
  "retry",
  "task.started",
  "task.progress",
  "task.finished"
])

/** What a plan does now, in a few words, as its frames say it. */
export class PlanProgress {
  message = "waiting"
  readonly #tools: Tools = new Map()

  /** Tells whether the message is another one. */
  next(frame: PlanFrame): boolean {
    // Most frames are pieces of text: they are not even parsed.
    if (!isTold.has(frame.event)) return false
    const message = messageOf(frame, this.#tools)
    if (message === undefined || message === this.message) return false
    this.message = message
    return true
  }
}
