import { Effect, Result, type Schema } from "effect"
import type { Entry } from "../provider/LegalHistory.ts"
import type { InputValidator } from "../tool/InputValidator.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"

/** The verdict on the answer that ends a plan: it is accepted, or the model has to repair it. */
export type Judged =
  | { readonly _tag: "Taken"; readonly output: { readonly output?: Schema.Json } }
  | { readonly _tag: "Rejected"; readonly repair: ReadonlyArray<Entry> }

/** Readers discard the answer of the step. */
const retract = ({ given, progress, step }: PlanRun): void => {
  for (const attempt of step?.shown ?? []) {
    given.journal.emit({ event: "text.retract", data: { step: progress.steps, attempt } })
  }
}

/** Says to the model what is wrong with its answer. The rejected answer is in this request only. */
const repairOf = (text: string, problem: string): ReadonlyArray<Entry> => [
  ...(text.trim() === "" ? [] : [{ role: "assistant" as const, parts: [{ type: "text" as const, text }] }]),
  {
    role: "user",
    parts: [
      {
        type: "text",
        text: `Your answer was rejected: ${problem}. Answer again with JSON that matches the schema, and nothing else.`
      }
    ]
  }
]

/** Holds the answer that ends the plan to `response_format`. It may be rejected once; the second time the plan fails. */
export const judge = Effect.fnUntraced(function* (
  validator: InputValidator["Service"],
  run: PlanRun,
  text: string,
  isRepaired: boolean
): Effect.fn.Return<Judged, PlannerError> {
  const { caller, request } = run.given
  const { response_format: format } = request.preferences
  if (format === "text") return { _tag: "Taken", output: {} }
  const answer = yield* validator.parseAnswer(caller, format.schema, text)
  if (Result.isSuccess(answer)) return { _tag: "Taken", output: { output: answer.success } }
  const problem = answer.failure
  if (isRepaired) {
    const message = `The answer does not meet preferences.response_format. ${problem}`
    return yield* new PlannerError({ code: "output_invalid", message, data: { partial: true, problem } })
  }
  retract(run)
  return { _tag: "Rejected", repair: repairOf(text, problem) }
})
