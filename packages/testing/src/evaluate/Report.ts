import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EvalCase } from "./Case.ts"
import { type Difference, differenceOf, meanOf, quantileOf } from "./Statistics.ts"

/** One plan of an evaluation: how it went. Times in milliseconds, costs in US dollars, null where they are not known. */
export interface Run {
  readonly case: string
  readonly model: string
  /** Counts 1, 2, 3 … within the case and the model. */
  readonly repeat: number
  readonly plan_id: string | null
  readonly pass: boolean
  readonly score: number | null
  readonly why: ReadonlyArray<string>
  readonly text: string
  readonly cost_usd: number | null
  readonly first_token_ms: number | null
  readonly duration_ms: number | null
  readonly steps: number
  readonly calls: number
  /** By what a run that is known is found again. */
  readonly key: string
}

/** What is measured of each run. A pass is 1, a failure 0. */
export const metrics = ["pass", "score", "cost_usd", "first_token_ms", "duration_ms", "steps", "calls"] as const
export type Metric = (typeof metrics)[number]

/** Of the runs in which it is known. */
interface Measured {
  readonly mean: number
  readonly p50: number
  readonly p95: number
  readonly runs: number
}

/** How one model did. What no run of it has is left out. */
export interface Summary {
  readonly model: string
  readonly runs: number
  readonly measured: { readonly [Name in Metric]?: Measured }
  /** From the first model, as far as both are known. Above 0 it has more of it. */
  readonly differences: { readonly [Name in Metric]?: Difference }
}

interface Settings {
  /** Milliseconds since 1970. */
  readonly started: number
  readonly models: ReadonlyArray<string>
  readonly repeat: number
  readonly tools: "recorded" | "live"
  readonly judge: string | null
}

/** What came of an evaluation: contract in `docs/reference/evaluate.md`. */
export interface Report extends Omit<Settings, "started"> {
  readonly schema: 1
  /** ISO 8601 in UTC. */
  readonly started_at: string
  readonly cases: ReadonlyArray<{ readonly id: string; readonly question: string }>
  readonly summaries: ReadonlyArray<Summary>
  readonly runs: ReadonlyArray<Run>
}

const valueOf = (run: Run, metric: Metric): number | null => (metric === "pass" ? Number(run.pass) : run[metric])

const valuesOf = (runs: ReadonlyArray<Run>, metric: Metric): ReadonlyArray<number> =>
  runs.flatMap((run) => valueOf(run, metric) ?? [])

const measured = (values: ReadonlyArray<number>): Measured | undefined =>
  values.length === 0
    ? undefined
    : { mean: meanOf(values), p50: quantileOf(values, 0.5), p95: quantileOf(values, 0.95), runs: values.length }

const byMetric = <A>(of: (metric: Metric) => A | undefined): { readonly [Name in Metric]?: A } =>
  Object.fromEntries(
    metrics.flatMap((metric) => {
      const value = of(metric)
      return value === undefined ? [] : [[metric, value]]
    })
  )

/** The mean of each case: runs of one case are alike, so they count as one. */
const meansOf = (runs: ReadonlyArray<Run>, metric: Metric): ReadonlyMap<string, number> =>
  new Map(
    Array.from(
      Map.groupBy(runs, (run) => run.case),
      ([id, own]): readonly [string, ReadonlyArray<number>] => [id, valuesOf(own, metric)]
    ).flatMap(([id, values]) => (values.length === 0 ? [] : [[id, meanOf(values)] as const]))
  )

const differencesOf = (first: ReadonlyArray<Run>, own: ReadonlyArray<Run>) =>
  byMetric((metric) => {
    const before = meansOf(first, metric)
    const pairs = Array.from(meansOf(own, metric)).flatMap(([id, mean]) => {
      const other = before.get(id)
      return other === undefined ? [] : [mean - other]
    })
    return differenceOf(pairs, metric === "pass")
  })

/** What came of these runs. */
export const reportOf = (
  { started, ...settings }: Settings,
  cases: ReadonlyArray<EvalCase>,
  runs: ReadonlyArray<Run>
): Report => {
  const byModel = Map.groupBy(runs, ({ model }) => model)
  const [first = ""] = settings.models
  return {
    schema: 1,
    started_at: fromMillis(started),
    ...settings,
    cases: cases.map(({ id, question }) => ({ id, question })),
    summaries: settings.models.map((model) => {
      const own = byModel.get(model) ?? []
      return {
        model,
        runs: own.length,
        measured: byMetric((metric) => measured(valuesOf(own, metric))),
        differences: model === first ? {} : differencesOf(byModel.get(first) ?? [], own)
      }
    }),
    runs
  }
}

/** The cases that do not pass with a model in each of their runs, with what is wrong. */
export const failingIn = ({
  runs
}: Report): ReadonlyArray<{ readonly model: string; readonly id: string; readonly why: string }> =>
  Array.from(
    Map.groupBy(
      runs.filter(({ pass }) => !pass),
      (run) => JSON.stringify([run.model, run.case])
    ).values()
  ).flatMap(([first]) =>
    first === undefined ? [] : [{ model: first.model, id: first.case, why: first.why.join("; ") || "it does not pass" }]
  )

/**
 * Those of them that passed in an earlier report: with the same model, or with its first one where it does not have that. Cases that the earlier report does not have are new.
 */
export const worseThan = (report: Report, before: Report): ReturnType<typeof failingIn> => {
  const failing = new Set(failingIn(before).map(({ id, model }) => JSON.stringify([model, id])))
  const known = new Set(before.cases.map(({ id }) => id))
  const [first = ""] = before.models
  return failingIn(report).filter(({ id, model }) => {
    const as = before.models.includes(model) ? model : first
    return known.has(id) && !failing.has(JSON.stringify([as, id]))
  })
}
