import { isDeepStrictEqual } from "node:util"
import type { Difference } from "./Comparison.ts"
import { fieldsOf, type PlanRecording, type RecordedCall } from "./RecordFile.ts"

/** What an app's tools give now, by their names: a function of the arguments of a call. One that throws has failed. */
export type Answers = Readonly<Record<string, (input: unknown) => unknown>>

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const isSame = (
  { result, state }: RecordedCall,
  came: { readonly answer: unknown } | { readonly error: unknown }
): boolean => {
  if ("error" in came) return state === "failed"
  if (state !== "completed" || result === null) return false
  // What is not JSON, such as undefined in an object, never was in the record.
  return came.answer === result || isDeepStrictEqual(parsed(JSON.stringify(came.answer) ?? ""), parsed(result))
}

/** The first call whose tool gives something else now. Only calls that were made, and are over, count. */
export const differenceIn = async (
  { calls, frames }: PlanRecording,
  answers: Answers
): Promise<Difference | undefined> => {
  let step = 0
  for (const { data, event } of frames) {
    const { input, task_id, ...fields } = fieldsOf(data)
    if (event === "step") step = Number(fields["step"])
    if (event !== "task.started") continue
    const call = calls.find((one) => one.task_id === task_id)
    const answer = call && answers[call.tool]
    if (answer === undefined || (call?.state !== "completed" && call?.state !== "failed")) continue
    const came = await Promise.resolve(input)
      .then(answer)
      .then(
        (answer) => ({ answer }),
        (error: unknown) => ({ error: String(error) })
      )
    if (isSame(call, came)) continue
    const { error, result, tool } = call
    return {
      step,
      what: `answer of ${tool}`,
      recorded: { input, ...(error === null ? { answer: parsed(result ?? "") } : { error }) },
      came: { input, ...came }
    }
  }
  return undefined
}
