import type { PlanView } from "@bowline/client"
import type { GivenFork } from "@bowline/client/forks"
import { Clock, Data, Effect, Option, Predicate, Semaphore } from "effect"
import { createHash } from "node:crypto"
import type { PlanRecording } from "../replay/RecordFile.ts"
import { type Check, type EvalCase, readCases } from "./Case.ts"
import { type Expectation, failuresOf, type Verdict } from "./Expectation.ts"
import * as Judge from "./Judge.ts"
import type { Judged } from "./Judge.ts"
import { failingIn, type Report, reportOf, type Run, worseThan } from "./Report.ts"

export type { Check, EvalCase, Judged, Report, Run, Verdict }
export { failingIn, readCases, worseThan }

/** What is asked: the body of `POST /plan`, or a plan that is run again. */
export type Asked =
  | { readonly _tag: "Question"; readonly request: Readonly<Record<string, unknown>> }
  | { readonly _tag: "Fork"; readonly recording: PlanRecording; readonly wanted: GivenFork }

/** Why a plan could not be asked at all: it is asked again when the evaluation is continued. */
export class AskFailed extends Data.TaggedError("AskFailed")<{ readonly message: string }> {}

interface Judgement {
  readonly key: string
  readonly judged: ReadonlyArray<Judged>
}

/** What is kept of an evaluation while it runs, so that it can be continued. */
export type Kept = Run | Judgement

const parse = Option.liftThrowable((line: string): unknown => JSON.parse(line))

const isKept = (one: unknown): one is Kept =>
  Predicate.hasProperty(one, "key") && (Predicate.hasProperty(one, "case") || Predicate.hasProperty(one, "judged"))

/** What was kept, a line of JSON each. A line that was being written when the process was killed is left out, and so is one that says something else. */
export const readKept = (text: string): ReadonlyArray<Kept> =>
  text.split("\n").flatMap((line) => Option.toArray(Option.filter(parse(line), isKept)))

/** What is evaluated, and how. */
export interface Evaluation {
  readonly cases: ReadonlyArray<EvalCase>
  /** As `provider/model`. What is set asks, if none is given. */
  readonly models?: ReadonlyArray<string> | undefined
  /** How often each model is asked each case: once, if not given. */
  readonly repeat?: number | undefined
  /** What becomes of the calls of plans that are run again: `recorded`, if not given. */
  readonly tools?: "recorded" | "live" | undefined
  readonly check?: Check | undefined
  /** What tells one check from another: a run that is known counts for the same one. */
  readonly checkVersion?: string | undefined
  /** The model that judges, as `provider/model`. */
  readonly judge?: string | undefined
  /** How many plans run at once: 8, if not given. */
  readonly concurrency?: number | undefined
  /** What an evaluation that was interrupted has kept. */
  readonly known?: ReadonlyArray<Kept> | undefined
  readonly onKept?: ((kept: Kept) => void) | undefined
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const digestOf = (...parts: ReadonlyArray<unknown>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22)

/** The name of a model that is not named. */
const whatIsSet = "(what is set)"

const askedOf = ({ recording, request = {} }: EvalCase, model: string, tools: "recorded" | "live"): Asked => {
  const isNamed = model !== whatIsSet
  if (recording !== undefined) {
    return { _tag: "Fork", recording, wanted: { step: 1, tools, ...(isNamed && { model }) } }
  }
  const { preferences } = request
  return {
    _tag: "Question",
    request: isNamed ? { ...request, preferences: Object.assign({}, preferences, { model }) } : request
  }
}

const since = (start: number | null, end: number | null): number | null =>
  start === null || end === null ? null : end - start

const firstTokenAt = ({ steps }: PlanView): number | null =>
  steps.flatMap(({ attempts }) => attempts).find((attempt) => attempt.firstTokenAt !== null)?.firstTokenAt ?? null

const checked = (check: Check, view: PlanView, { id, question }: EvalCase): Effect.Effect<ReadonlyArray<Verdict>> =>
  Effect.tryPromise({
    try: async () => check(view, { id, question }),
    catch: (error) => `the check has failed: ${messageOf(error)}`
  }).pipe(Effect.catch((why) => Effect.succeed([{ pass: false, why }])))

const scoreOf = (verdicts: ReadonlyArray<Verdict>): number | null => {
  const scores = verdicts.flatMap(({ score }) => score ?? [])
  return scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length
}

const endOf = ({ outcome }: PlanView): ReadonlyArray<Verdict> => {
  if (outcome !== null && "final" in outcome) return []
  const why = outcome === null ? "the plan has no outcome" : `${outcome.error.code}: ${outcome.error.message}`
  return [{ pass: false, why }]
}

type Result = Omit<Run, "key" | "case" | "model" | "repeat">

const resultOf = (view: PlanView, verdicts: ReadonlyArray<Verdict>): Result => ({
  plan_id: view.planId,
  pass: verdicts.every(({ pass }) => pass),
  score: scoreOf(verdicts),
  why: verdicts.flatMap(({ pass, why }) => (pass ? [] : [why])),
  text: view.text,
  cost_usd: view.costUsd,
  first_token_ms: since(view.startedAt, firstTokenAt(view)),
  duration_ms: since(view.startedAt, view.endedAt),
  steps: view.steps.length,
  calls: view.tasks.length
})

const notAsked = (message: string): Result => ({
  plan_id: null,
  pass: false,
  score: null,
  why: [message],
  text: "",
  cost_usd: null,
  first_token_ms: null,
  duration_ms: null,
  steps: 0,
  calls: 0
})

/** The run with what its judge says. */
const withJudged = (run: Run, judged: Judged | string | undefined): Run => {
  if (judged === undefined) return run
  if (typeof judged === "string") return { ...run, pass: false, why: [...run.why, judged] }
  const [one, other] = judged.scores
  const score = (one + other) / 2
  const pass = score >= Judge.passing
  return {
    ...run,
    pass: run.pass && pass,
    score: run.score === null ? score : (run.score + score) / 2,
    why: pass ? run.why : [...run.why, `the judge scores it ${score.toFixed(2)}: ${judged.why}`]
  }
}

/** Asks all models all cases, so many at once, and reports. What fails is in the report: it fails nothing. */
const run = (
  evaluation: Evaluation,
  ask: (asked: Asked) => Effect.Effect<PlanView, AskFailed>
): Effect.Effect<Report> =>
  Effect.gen(function* () {
    const {
      cases,
      check,
      checkVersion = "",
      concurrency = 8,
      judge,
      known = [],
      onKept,
      tools = "recorded"
    } = evaluation
    const { models = [], repeat = 1 } = evaluation
    const asked = models.length === 0 ? [whatIsSet] : models
    const started = yield* Clock.currentTimeMillis
    const slots = yield* Semaphore.make(concurrency)
    const byKey = new Map(known.map((one) => [one.key, one]))
    const keep = <A extends Kept>(one: A): A => {
      onKept?.(one)
      return one
    }

    const runOne = Effect.fnUntraced(function* (one: EvalCase, model: string, repeat: number, expect: Expectation) {
      const key = digestOf(one.id, one.request ?? null, expect, model, repeat, tools, check && checkVersion)
      const earlier = byKey.get(key)
      if (earlier !== undefined && "case" in earlier) return earlier
      const answered = yield* Effect.result(slots.withPermit(ask(askedOf(one, model, tools))))
      const place = { case: one.id, model, repeat }
      if (answered._tag === "Failure") return { ...place, key, ...notAsked(answered.failure.message) }
      const view = answered.success
      const verdicts = check === undefined ? [] : yield* checked(check, view, one)
      return keep({ ...place, key, ...resultOf(view, [...endOf(view), ...failuresOf(view, one.expect), ...verdicts]) })
    })

    /** Twice, in both orders: a model prefers the first answer, or the last one. */
    const judgeAll = Effect.fnUntraced(function* (model: string, one: EvalCase, runs: ReadonlyArray<Run>) {
      const key = digestOf(
        model,
        one.expect.rubric ?? null,
        runs.map(({ key, text }) => [key, text])
      )
      const earlier = byKey.get(key)
      if (earlier !== undefined && "judged" in earlier) return earlier.judged
      const answers = runs.map(({ text }) => text)
      const recorded = one.recording?.plan.final?.text
      const all = recorded === undefined ? answers : [...answers, recorded]
      const said = yield* Effect.forEach(
        [all, all.toReversed()],
        (inOrder) =>
          slots.withPermit(ask({ _tag: "Question", request: Judge.questionOf(model, one, inOrder) })).pipe(
            Effect.map((view) => Judge.judgementIn(view, inOrder.length)),
            Effect.catchTag("AskFailed", ({ message }) => Effect.succeed(`the judge could not be asked: ${message}`))
          ),
        { concurrency: 2 }
      )
      const [forth = "", back = ""] = said
      if (typeof forth === "string") return forth
      if (typeof back === "string") return back
      const inOrder = back.toReversed()
      const judged = runs.map((_, index): Judged => {
        const [a, b] = [forth[index], inOrder[index]]
        return { scores: [a?.score ?? 0, b?.score ?? 0], why: a?.why ?? "" }
      })
      return keep({ key, judged }).judged
    })

    const group = Effect.fnUntraced(function* ([one, repeat]: readonly [EvalCase, number]) {
      const runs = yield* Effect.forEach(asked, (model) => runOne(one, model, repeat, one.expect), {
        concurrency: "unbounded"
      })
      const answered = runs.filter(({ plan_id, text }) => plan_id !== null && text !== "")
      if (judge === undefined || answered.length === 0) return runs
      const judged = yield* judgeAll(judge, one, answered)
      return runs.map((run) => {
        const at = answered.indexOf(run)
        return withJudged(run, at < 0 ? undefined : typeof judged === "string" ? judged : judged[at])
      })
    })

    const groups = Array.from({ length: repeat }, (_, index) => cases.map((one) => [one, index + 1] as const)).flat()
    const runs = yield* Effect.forEach(groups, group, { concurrency })
    return reportOf({ started, models: asked, repeat, tools, judge: judge ?? null }, cases, runs.flat())
  })

/**
 * Asks models the same cases, and compares them. `ask` runs one plan: on a gateway, or in this process. `signal` ends it in order.
 *
 * @example
 * ```ts
 * import { evaluate, failingIn, readCases, readKept, type Report, worseThan } from "@bowline/testing/evaluate/Evaluate"
 * import { askGateway } from "@bowline/testing/evaluate/AskGateway"
 * import { appendFileSync, readFileSync } from "node:fs"
 *
 * const path = "cases.jsonl"
 *
 * // On the gateway at this address. What an evaluation that was stopped has kept is not asked again.
 * export const compare = (baseUrl: string, kept: string): Promise<Report> =>
 *   evaluate({
 *     cases: readCases([{ path, bytes: readFileSync(path) }]),
 *     models: ["openai/gpt-5-mini", "anthropic/claude-haiku-4-5"],
 *     ask: askGateway({ baseUrl }),
 *     known: readKept(readFileSync(kept, "utf8")),
 *     onKept: (one) => appendFileSync(kept, `${JSON.stringify(one)}\n`)
 *   })
 *
 * // Ids of cases that do not pass, and of those that passed before.
 * export const failing = (report: Report): ReadonlyArray<string> => failingIn(report).map(({ id }) => id)
 * export const worse = (report: Report, before: Report): ReadonlyArray<string> => worseThan(report, before).map(({ id }) => id)
 * ```
 */
export const evaluate = ({
  ask,
  signal,
  ...evaluation
}: Evaluation & {
  readonly ask: (asked: Asked, signal: AbortSignal) => Promise<PlanView>
  readonly signal?: AbortSignal | undefined
}): Promise<Report> =>
  Effect.runPromise(
    run(evaluation, (asked) =>
      Effect.callback((resume) => {
        const controller = new AbortController()
        const asking = ask(asked, controller.signal).then(
          (view) => resume(Effect.succeed(view)),
          (error: unknown) => resume(Effect.fail(new AskFailed({ message: messageOf(error) })))
        )
        // Until it has ended in order.
        return Effect.promise(() => {
          controller.abort()
          return asking
        })
      })
    ),
    { signal }
  )
