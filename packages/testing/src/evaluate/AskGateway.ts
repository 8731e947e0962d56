import { BowlineError, type BowlineOptions, createBowline, type PlanRequest, type PlanView } from "@bowline/client"
import { createForks } from "@bowline/client/forks"
import { written } from "../replay/RecordFile.ts"
import type { EvalCase } from "./Case.ts"
import type { Asked } from "./Evaluate.ts"

/**
 * Runs plans of an evaluation on the gateway at this address: questions are asked, and exported plans are forked, so the gateway has to have them. A plan whose signal is aborted is
 * cancelled first.
 *
 * @example
 * ```ts
 * import type { PlanView } from "@bowline/client"
 * import { askGateway, checkCases } from "@bowline/testing/evaluate/AskGateway"
 * import type { EvalCase } from "@bowline/testing/evaluate/Evaluate"
 *
 * const gateway = { baseUrl: "http://127.0.0.1:3774" }
 *
 * export const ask = (question: string, signal: AbortSignal): Promise<PlanView> =>
 *   askGateway(gateway)({ _tag: "Question", request: { question } }, signal)
 *
 * export const check = (cases: ReadonlyArray<EvalCase>, signal: AbortSignal): Promise<void> =>
 *   checkCases(gateway, cases, ["openai/gpt-5-mini"], signal)
 * ```
 */
export const askGateway = (options: BowlineOptions) => {
  const bowline = createBowline(options)
  const forks = createForks(options)
  return async (asked: Asked, signal: AbortSignal): Promise<PlanView> => {
    signal.throwIfAborted()
    const stream =
      asked._tag === "Question"
        ? bowline.plan(written<PlanRequest>(asked.request))
        : forks.fork(asked.recording.plan.plan_id, asked.wanted)
    const ended = stream.result().then(
      () => undefined,
      () => undefined
    )
    const left = Promise.withResolvers<undefined>()
    const leave = () => left.resolve(undefined)
    signal.addEventListener("abort", leave)
    await Promise.race([ended, left.promise])
    signal.removeEventListener("abort", leave)
    if (signal.aborted && stream.view().outcome === null) {
      await stream.cancel().catch(() => undefined)
      signal.throwIfAborted()
    }
    // Only a plan without an outcome has a failure of its own: it could not be asked, or not be read.
    if (stream.view().outcome === null) await stream.result()
    return stream.view()
  }
}

const problemOf = (error: unknown, id: string): Error => {
  if (!(error instanceof BowlineError)) return new Error(String(error))
  if (error.status === 404) {
    return new Error(
      `It has no plan ${id}. Name the gateway that has it with BOWLINE_URL, or run what is on record in this process with --local`
    )
  }
  const said = error.issues?.map(({ message, path }) => `${path}: ${message}`).join("; ") ?? error.message
  return new Error(error.status === undefined ? error.message : `${id}: ${said}`)
}

/** Fails with what the gateway would refuse, before anything is asked: a plan that it does not have, a field that is wrong. */
export const checkCases = async (
  options: BowlineOptions,
  cases: ReadonlyArray<EvalCase>,
  models: ReadonlyArray<string>,
  signal: AbortSignal
): Promise<void> => {
  const { plans } = createBowline(options)
  const check = (id: string, { preferences, ...request }: Readonly<Record<string, unknown>>, model?: string) => {
    const asked = model === undefined ? preferences : Object.assign({}, preferences, { model })
    const body = written<PlanRequest>({ ...request, ...(asked !== undefined && { preferences: asked }) })
    return plans.check(body, { signal }).catch((error: unknown) => {
      throw problemOf(error, id)
    })
  }
  for (const model of models) await check(model, { question: "Is it allowed?" }, model)
  for (const { id, recording, request = {} } of cases) {
    if (recording === undefined) await check(id, request, models[0])
    else {
      await plans.get(id, { signal }).catch((error: unknown) => {
        throw problemOf(error, id)
      })
    }
  }
}
