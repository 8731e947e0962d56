import type { Asked, Report } from "@bowline/testing/evaluate/Evaluate"
import type { PlanView } from "@bowline/client"
import { Effect, Fiber, Layer, Option, Predicate, Redacted, type Scope } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { createHash } from "node:crypto"
import { appendFileSync, existsSync, rmSync } from "node:fs"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import * as ClientConfig from "./ClientConfig.ts"
import { Ended, exitCodes, failed, misconfigured, misused, reasonOf } from "./Ended.ts"
import { appendFile, expectWritable, readFile, readText, writeFile } from "./LocalFiles.ts"
import { printLine, tell } from "./Output.ts"
import { Configuration } from "./ServeCommand.ts"
import * as Signals from "./Signals.ts"
import * as TextTable from "./TextTable.ts"

const parameters = {
  cases: Argument.String("cases").pipe(
    Argument.withDescription("Files of exported plans, and of JSON lines {id?, question, expect?}"),
    Argument.atLeast(1)
  ),
  model: Flag.String("model").pipe(
    Flag.withDescription(
      "The models that are compared, as provider/model, separated by commas. What is set, if not given"
    ),
    Flag.optional
  ),
  repeat: Flag.Int("repeat").pipe(Flag.withDescription("How often each model is asked each case"), Flag.withDefault(1)),
  check: Flag.String("check").pipe(
    Flag.withDescription("A TypeScript file whose default export takes a PlanView, and gives {pass, score?, why}[]"),
    Flag.optional
  ),
  judge: Flag.String("judge").pipe(
    Flag.withDescription("A model that scores the answers, as provider/model: it is asked twice, in both orders"),
    Flag.optional
  ),
  tools: Flag.Literals("tools", ["recorded", "live"]).pipe(
    Flag.withDescription("Whether the calls of exported plans get what was recorded, or are made"),
    Flag.withDefault("recorded")
  ),
  concurrency: Flag.Int("concurrency").pipe(Flag.withDescription("How many plans run at once"), Flag.withDefault(8)),
  out: Flag.String("out").pipe(
    Flag.withDescription("The report as JSON, with a page beside it. If it was stopped, the same command resumes it"),
    Flag.optional
  ),
  junit: Flag.String("junit").pipe(Flag.withDescription("The report as JUnit XML"), Flag.optional),
  baseline: Flag.String("baseline").pipe(
    Flag.withDescription("An earlier report: only cases that passed in it, and fail now, make the exit code 1"),
    Flag.optional
  ),
  local: Flag.Boolean("local").pipe(
    Flag.withDescription("Run the plans in this process, with its configuration, in place of a gateway"),
    Flag.withDefault(false)
  )
}

/** How long Ctrl-C waits until the plans that run are cancelled. */
const cancelTimeout = "5 seconds"

// It stands on what a replay stands on, which no gateway that serves needs.
const Evaluating = Effect.tryPromise({
  try: async () => ({
    ...(await import("@bowline/testing/evaluate/Evaluate")),
    ...(await import("@bowline/testing/evaluate/AskGateway")),
    ...(await import("@bowline/testing/unstable/evaluate/ReportFiles")),
    here: await import("@bowline/testing/unstable/evaluate/RecordedPlans")
  }),
  catch: () =>
    failed("An evaluation needs the test kit. Install @bowline/testing in the version of this gateway beside it")
})
type Evaluating = Effect.Success<typeof Evaluating>

type Ask = (asked: Asked, signal: AbortSignal) => Promise<PlanView>
type Cases = ReturnType<Evaluating["readCases"]>

/** Asks the gateway that the environment names. What it would refuse is refused before anything is asked. */
const onGateway = Effect.fnUntraced(function* (
  { askGateway, checkCases }: Evaluating,
  cases: Cases,
  models: ReadonlyArray<string>,
  judges: ReadonlyArray<string>
): Effect.fn.Return<Ask, Ended> {
  const { apiKey, url } = yield* Effect.mapError(ClientConfig.fromProcess, ({ problems }) => misconfigured(problems))
  const options = { baseUrl: url, apiKey: apiKey && Redacted.value(apiKey) }
  yield* Effect.tryPromise({
    try: async (signal) => {
      await checkCases(options, [], judges, signal)
      await checkCases(options, cases, models, signal)
    },
    catch: (error) => failed(`${url}: ${reasonOf(error)}`)
  })
  return askGateway(options)
})

/** Runs the plans in this process. */
const inProcess = Effect.fnUntraced(function* (
  { here }: Evaluating,
  cases: Cases
): Effect.fn.Return<Ask, Ended, Scope.Scope> {
  const { fromProcess } = yield* Configuration
  const config = yield* Effect.catchTag(fromProcess(), "InvalidConfiguration", ({ problems }) =>
    misconfigured(problems)
  )
  const gateway = yield* Effect.promise(() => import("../Gateway.ts"))
  const { Plans } = yield* Effect.promise(() => import("@bowline/runtime/plan/Plans"))
  const recordings = cases.flatMap(({ recording }) => recording ?? [])
  const plans = Plans.layer.pipe(Layer.provideMerge(here.layer(recordings)))
  const quiet = { ...config, log: { ...config.log, level: "Error" as const } }
  const context = yield* Layer.build(gateway.local(quiet, plans)).pipe(
    Effect.mapError((error) => failed(`Cannot run plans in this process: ${reasonOf(error)}`))
  )
  const ask = yield* Effect.provideContext(here.ask, context)
  return (asked, signal) => Effect.runPromiseWith(context)(ask(asked), { signal })
})

type Check = NonNullable<Parameters<Evaluating["evaluate"]>[0]["check"]>
const isCheck = (value: unknown): value is Check => typeof value === "function"

const loadCheck = Effect.fnUntraced(function* (path: string) {
  const text = yield* readText(path)
  const loaded: unknown = yield* Effect.tryPromise({
    try: () => import(pathToFileURL(resolve(path)).href),
    catch: (cause) => failed(`Cannot load ${path}: ${reasonOf(cause)}`)
  })
  const check = Predicate.hasProperty(loaded, "default") ? loaded.default : undefined
  if (!isCheck(check)) return yield* failed(`${path}: Expected a function as its default export`)
  return { check, checkVersion: createHash("sha256").update(text).digest("hex") }
})

const readReport = (path: string) =>
  Effect.flatMap(readText(path), (text) =>
    Effect.try({ try: (): unknown => JSON.parse(text), catch: () => failed(`${path}: Expected a report as JSON`) })
  ).pipe(
    Effect.filterOrFail(isReport, () => failed(`${path}: Expected a report of the schema 1, which --out has written`))
  )

const isReport = (value: unknown): value is Report => Predicate.hasProperty(value, "schema") && value.schema === 1

type Summary = Report["summaries"][number]

/** One line for each model, and for each difference from the first one. */
const printReport = Effect.fnUntraced(function* ({ show, titles, told }: Evaluating, { summaries }: Report) {
  const mean = (metric: keyof typeof titles) => (summary: Summary) => show(metric, summary.measured[metric]?.mean)
  const at = (metric: keyof typeof titles, place: "p50" | "p95") => (summary: Summary) =>
    show(metric, summary.measured[metric]?.[place])
  const columns: ReadonlyArray<TextTable.Column<Summary>> = [
    ["MODEL", ({ model }) => model],
    ["PASS", mean("pass")],
    ["SCORE", mean("score")],
    ["COST", mean("cost_usd")],
    ["FIRST TOKEN", at("first_token_ms", "p50")],
    ["P95", at("first_token_ms", "p95")],
    ["TIME", at("duration_ms", "p50")],
    ["P95", at("duration_ms", "p95")],
    ["STEPS", mean("steps")],
    ["CALLS", mean("calls")]
  ]
  yield* TextTable.print(columns, summaries, "No models")
  const lines = summaries.flatMap(({ differences, model }) =>
    (["pass", "score", "cost_usd", "first_token_ms"] as const).flatMap((metric) => {
      const one = differences[metric]
      return one === undefined ? [] : [`${model}: ${titles[metric]} ${told(metric, one)}`]
    })
  )
  yield* Effect.forEach(lines, printLine, { discard: true })
})

/** Says how far it is, where somebody looks. */
const progress = (total: number) => {
  const { stderr } = process
  let done = 0
  return {
    next: () => void (stderr.isTTY && stderr.write(`\r${++done} of ${total}`)),
    clear: Effect.sync(() => void (stderr.isTTY && stderr.write("\r\u001b[K")))
  }
}

/** Asks models the same cases, compares them, and fails where one fails. */
export const evaluate = Command.make(
  "eval",
  parameters,
  Effect.fnUntraced(function* (given) {
    const { concurrency, judge, repeat, tools } = given
    if (repeat < 1 || concurrency < 1) return yield* misused("Expected 1 or more for --repeat and --concurrency")
    const models: ReadonlyArray<string> = Option.match(given.model, {
      onNone: () => [],
      onSome: (names) => names.split(",").map((name) => name.trim())
    })
    if (models.includes("") || new Set(models).size < models.length) {
      return yield* misused("Expected models for --model, each of them once, separated by commas")
    }
    const evaluating = yield* Evaluating
    const files = yield* Effect.forEach(given.cases, (path) => Effect.map(readFile(path), (bytes) => ({ path, bytes })))
    const cases = yield* Effect.try({
      try: () => evaluating.readCases(files),
      catch: (cause) => failed(reasonOf(cause))
    })
    const check = yield* Option.match(given.check, { onNone: () => Effect.succeed({}), onSome: loadCheck })
    const baseline = yield* Effect.transposeOption(Option.map(given.baseline, readReport))
    const out = Option.getOrUndefined(given.out)
    const kept = out === undefined ? undefined : `${out}.part`
    const page = out === undefined ? undefined : `${out.replace(/\.json$/, "")}.html`
    // Questions cost money: before the first one it is clear whether the results can be written.
    yield* Effect.forEach(
      [out, kept, page, Option.getOrUndefined(given.junit)].filter((path) => path !== undefined),
      expectWritable
    )
    const before = kept === undefined || !existsSync(kept) ? "" : yield* readText(kept)
    const known = evaluating.readKept(before)
    // A line that was being written when the process was killed has no end.
    if (kept !== undefined && !/(^|\n)$/.test(before)) yield* appendFile(kept, "\n")
    const ask = yield* given.local
      ? inProcess(evaluating, cases)
      : onGateway(evaluating, cases, models, Option.toArray(judge))
    if (known.length > 0) yield* tell(`Going on behind ${known.length} runs of ${kept}`)

    const leaving = new AbortController()
    const shown = progress(cases.length * Math.max(models.length, 1) * repeat)
    const running = yield* Effect.forkScoped(
      Effect.tryPromise({
        try: () =>
          evaluating.evaluate({
            ...check,
            ask,
            cases,
            concurrency,
            known,
            models,
            repeat,
            tools,
            signal: leaving.signal,
            judge: Option.getOrUndefined(judge),
            onKept: (one) => {
              shown.next()
              if (kept !== undefined) appendFileSync(kept, `${JSON.stringify(one)}\n`)
            }
          }),
        catch: (cause) => failed(`The evaluation ended: ${reasonOf(cause)}`)
      })
    )
    const isInterrupted = yield* Effect.raceFirst(
      Effect.as(Fiber.await(running), false),
      Effect.as(Signals.first, true)
    )
    yield* shown.clear
    if (isInterrupted) {
      yield* tell("Cancelling the plans that run. Ctrl-C quits at once")
      leaving.abort()
      yield* Effect.timeoutOption(Fiber.await(running), cancelTimeout)
      const next = kept === undefined ? "with --out the same command goes on from there" : "the same command goes on"
      return yield* new Ended({ code: exitCodes.interrupted, lines: [`Interrupted: ${next}`] })
    }
    const report = yield* Fiber.join(running)
    if (out !== undefined && kept !== undefined && page !== undefined) {
      yield* writeFile(out, `${JSON.stringify(report)}\n`)
      yield* writeFile(page, evaluating.pageOf(report))
      if (report.runs.every(({ plan_id }) => plan_id !== null)) rmSync(kept, { force: true })
    }
    if (Option.isSome(given.junit)) yield* writeFile(given.junit.value, evaluating.junitOf(report))
    yield* printReport(evaluating, report)
    const failing = Option.match(baseline, {
      onNone: () => evaluating.failingIn(report),
      onSome: (before) => evaluating.worseThan(report, before)
    })
    yield* Effect.forEach(failing, ({ id, model, why }) => printLine(`${id}: ${model}: ${why}`), { discard: true })
    if (failing.length > 0) return yield* new Ended({ code: exitCodes.failed, lines: [] })
  }, Effect.scoped)
).pipe(Command.withDescription("Ask models the same cases, and compare them: exported plans, or questions"))
