import type { TaskState } from "@bowline/domain/tool/TaskState"
import type { LoopLimits } from "../config/PlansConfig.ts"

/** A call that has ended. */
export interface EndedCall {
  /** What was asked: the tool and the canonical JSON of its arguments, or their text if they do not parse. */
  readonly signature: string
  readonly tool: string
  readonly state: TaskState
  readonly result: string
  /** A tool that is meant to be asked again and again. */
  readonly isPolling: boolean
}

/** The history of a signature: the steps in a row in which it failed, and how often in a row it gave its last result. */
interface Seen {
  readonly failedSteps: number
  readonly result: string | undefined
  readonly repeats: number
}

/**
 * What a plan remembers of its calls.
 *
 *     watching ──a call repeats itself──▶ warned ──two more repetitions──▶ exhausted: the next step answers without tools
 *         └──────────────┬──────────────────┘
 *                        └──the same call fails in three steps──▶ detected: the plan ends
 */
export interface LoopState {
  readonly seen: ReadonlyMap<string, Seen>
  /** The newest calls that count, for two that alternate. */
  readonly recent: ReadonlyArray<Pick<EndedCall, "signature" | "result">>
  /** Repetitions since the model was told; undefined before. */
  readonly ignored: number | undefined
}

export const initial: LoopState = { seen: new Map(), recent: [], ignored: undefined }

/** What comes of a step. */
export interface Verdict {
  readonly state: LoopState
  /** The call in whose result the model is told that it repeats itself. */
  readonly warned: EndedCall | undefined
  /** The call whose failures end the plan. */
  readonly detected: EndedCall | undefined
}

/** Repetitions that still run once the model was told. */
const patience = 2

/** Whether the next step has to answer without tools. */
export const isExhausted = ({ ignored = 0 }: LoopState): boolean => ignored >= patience

const isFailed = ({ state }: EndedCall): boolean => state === "failed" || state === "timed-out" || state === "invalid"

/** Whether a call says anything about a loop. What was refused, interrupted or handed back to the caller does not. */
const counts = (call: EndedCall): boolean => isFailed(call) || call.state === "completed" || call.state === "canceled"

const unseen: Seen = { failedSteps: 0, result: undefined, repeats: 0 }

/** Whether the newest calls are two that alternate, each with the same result, for so many rounds. */
const isAlternating = (recent: LoopState["recent"], pairs: number): boolean => {
  const calls = recent.slice(-2 * pairs)
  const [a, b] = calls
  if (a === undefined || b === undefined || calls.length < 2 * pairs || a.signature === b.signature) return false
  return calls.every(({ signature, result }, index) => {
    const expected = index % 2 === 0 ? a : b
    return signature === expected.signature && result === expected.result
  })
}

/** Counts the failures of a step: a signature has failed in it if all its calls have. */
const countFailures = (before: LoopState["seen"], calls: ReadonlyArray<EndedCall>): Map<string, Seen> => {
  const seen = new Map(before)
  const hasSucceeded = new Set(calls.filter((call) => !isFailed(call)).map(({ signature }) => signature))
  for (const signature of new Set(calls.map((call) => call.signature))) {
    const known = seen.get(signature) ?? unseen
    seen.set(signature, { ...known, failedSteps: hasSucceeded.has(signature) ? 0 : known.failedSteps + 1 })
  }
  return seen
}

/** Takes in the calls of a step, in their order, once all of them have ended. Several calls of one signature are one. */
export const afterStep = (before: LoopState, step: ReadonlyArray<EndedCall>, limits: LoopLimits): Verdict => {
  const calls = step.filter(counts)
  const seen = countFailures(before.seen, calls)
  const isDetected = ({ signature }: EndedCall) =>
    limits.failures > 0 && (seen.get(signature)?.failedSteps ?? 0) >= limits.failures
  const repetitions: Array<EndedCall> = []
  let { recent } = before
  for (const call of new Map(calls.map((one) => [one.signature, one])).values()) {
    if (call.isPolling) continue
    const { signature, result } = call
    const known = seen.get(signature) ?? unseen
    const repeats = known.result === result ? known.repeats + 1 : 1
    seen.set(signature, { ...known, result, repeats })
    recent = [...recent, { signature, result }].slice(-2 * Math.max(limits.pairs, 1))
    const isRepeated = limits.repeats > 0 && repeats >= limits.repeats
    if (isRepeated || (limits.pairs > 0 && isAlternating(recent, limits.pairs))) repetitions.push(call)
  }
  const detected = calls.findLast(isDetected)
  if (before.ignored !== undefined) {
    return { state: { seen, recent, ignored: before.ignored + repetitions.length }, warned: undefined, detected }
  }
  // The model reads the warning after the step: what else this step repeats was not done in spite of it.
  const [warned] = repetitions
  return { state: { seen, recent, ignored: warned && 0 }, warned, detected }
}
