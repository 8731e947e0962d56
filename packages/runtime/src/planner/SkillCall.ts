import type { SkillCall } from "@bowline/domain/plan/PlanRequest"
import { Effect } from "effect"
import type { Entry } from "../provider/LegalHistory.ts"
import * as Envelope from "../tool/Envelope.ts"
import * as ToolName from "../tool/ToolName.ts"
import { PlannerError } from "./PlannerError.ts"
import type * as Step from "./Step.ts"

const longestError = 8_192

/** An answer that asks for the call, as a provider's would: so it goes the way of every call. */
export const answerWith = ({ agent, input, skill }: SkillCall): Step.Given => {
  const name = ToolName.forSkill(agent, skill)
  const call = { _tag: "ToolCall", call: 0, id: name, name, arguments: JSON.stringify(input), at: 0 } as const
  return { finish: "tool_calls", text: "", parts: [], calls: [call], dropped: [], isEnough: false, usage: undefined }
}

/** What the call has said, as its plan's last message has it. Fails unless the call is completed. */
export const resultIn = (messages: ReadonlyArray<Entry>, { agent, skill }: SkillCall) =>
  Effect.gen(function* () {
    const result = messages.flatMap(({ parts }) => parts).findLast((part) => part.type === "tool_result")
    if (result === undefined) return yield* Effect.die(new Error("The call has no result"))
    const { content, state } = result
    const text = Envelope.contentOf(content)
    if (state === "completed") return text
    const data = { tool: ToolName.forSkill(agent, skill), state }
    const code = state === "invalid" ? "invalid_request" : "tool_failed"
    return yield* new PlannerError({ code, message: Envelope.truncate(text, longestError).text, data })
  })
