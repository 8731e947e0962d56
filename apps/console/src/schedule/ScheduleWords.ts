import type { Schedule } from "@bowline/client"
import { span } from "../text/Format.ts"

/** When a schedule is due, in a few words. */
export const whenOf = ({ when }: Pick<Schedule, "when">): string => {
  if ("cron" in when) return `${when.cron} (${when.time_zone})`
  return "at" in when ? `once, ${when.at}` : `every ${span(when.every_ms)}`
}

/** How it is doing: a state that has a tone, and words for it. */
export const stateOf = ({
  failures,
  next_at,
  paused
}: Schedule): { readonly state: string; readonly words: string } => {
  const refused = failures === 0 ? "" : `, ${failures} refused in a row`
  if (paused) return { state: failures === 0 ? "paused" : "refused", words: `paused${refused}` }
  if (next_at === null) return { state: "over", words: "not due any more" }
  return failures === 0 ? { state: "ok", words: "active" } : { state: "missed", words: `active${refused}` }
}

/** What its plans are asked. */
export const questionOf = ({ plan }: Schedule): string => (typeof plan["question"] === "string" ? plan["question"] : "")
