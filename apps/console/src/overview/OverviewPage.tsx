import type { Overview, PlanState } from "@bowline/client"
import { isAdmin } from "../gateway/Config.ts"
import { bowline, fetchOwn } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { SpanLinks } from "../list/SpanLinks.tsx"
import { StateChart, totalOf } from "../list/StateChart.tsx"
import { axisTime, beginOf, instantOf, spanOf } from "../list/TimeRange.ts"
import { here, setQuery } from "../route/Location.ts"
import { changed } from "../route/Route.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { count, duration, unknown } from "../text/Format.ts"
import { Costs, Failures, Open, type PlansHref, Replicas, Tools } from "./Parts.tsx"
import { Sparkline } from "./Sparkline.tsx"

const shownStates = [
  "completed",
  "failed",
  "aborted",
  "waiting",
  "running",
  "queued"
] as const satisfies ReadonlyArray<PlanState>

/** The checks that this process of the gateway does not pass: none if it is ready. */
const failedChecks = async (signal: AbortSignal): Promise<ReadonlyArray<string>> => {
  const response = await fetchOwn("/ready", { headers: { accept: "application/json" }, signal })
  if (response.ok) return []
  // The gateway has the shapes of its API.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { failed = [] } = (await response.json()) as { readonly failed?: ReadonlyArray<string> }
  return failed
}

const Ready = () => {
  const failed = useResource("ready", failedChecks, { every: 10_000 }).data.value
  if (failed === undefined) return <>{unknown}</>
  return (
    <State
      state={failed.length === 0 ? "ok" : "error"}
      words={failed.length === 0 ? "ready" : `not ready: ${failed.join(", ")}`}
    />
  )
}

const Lengths = ({
  name,
  points,
  value
}: {
  readonly name: string
  readonly value: Overview["duration_ms"]
  readonly points: ReadonlyArray<number | null>
}) => (
  <div>
    <dt>{name}</dt>
    <dd>
      {value === null ? (
        unknown
      ) : (
        <>
          {duration(value.p50)} <span class="dim">half,</span> {duration(value.p95)} <span class="dim">95 %</span>
          <Sparkline points={points} />
        </>
      )}
    </dd>
  </div>
)

/** `12 a minute`; `3.4 an hour` where that is less than one each ten minutes. */
const rateOf = (plans: number, ms: number): string => {
  const perMinute = plans / (ms / 60_000)
  const [rate, unit] = perMinute >= 0.1 || plans === 0 ? [perMinute, "a minute"] : [perMinute * 60, "an hour"]
  return `${rate >= 10 || plans === 0 ? count(Math.round(rate)) : rate.toFixed(1)} ${unit}`
}

const Facts = ({ overview, toPlans }: { readonly overview: Overview; readonly toPlans: PlansHref }) => {
  const { plans, since, stretches, until } = overview
  const total = totalOf(plans)
  return (
    <dl class="facts">
      <div>
        <dt>Plans</dt>
        <dd>
          <a href={toPlans({})}>{count(total)}</a>{" "}
          <span class="dim">{rateOf(total, Date.parse(until) - Date.parse(since))}</span>
        </dd>
      </div>
      {shownStates.map((state) => (
        <div key={state}>
          <dt>
            <State state={state} />
          </dt>
          <dd>
            <a href={toPlans({ state })}>{count(plans[state])}</a>{" "}
            {total === 0 ? null : <span class="dim">{((100 * plans[state]) / total).toFixed(1)} %</span>}
          </dd>
        </div>
      ))}
      <Lengths
        name="First text after"
        value={overview.first_token_ms}
        points={stretches.map(({ first_token_p95 }) => first_token_p95)}
      />
      <Lengths name="Took" value={overview.duration_ms} points={stretches.map(({ duration_p95 }) => duration_p95)} />
      <div>
        <dt>This replica</dt>
        <dd>
          <Ready />
        </dd>
      </div>
    </dl>
  )
}

const Whole = ({ overview }: { readonly overview: Overview }) => {
  const { caller, since, until } = overview
  const whose = isAdmin.value ? (caller ?? "*") : null
  const toPlans: PlansHref = (filter) =>
    `/plans${changed(new URLSearchParams(), { since, until, caller: whose, ...filter })}`
  const toOpen: PlansHref = (filter) => `/plans${changed(new URLSearchParams(), { caller: whose, ...filter })}`
  return (
    <>
      <Facts overview={overview} toPlans={toPlans} />
      <StateChart
        label="Plans by state, over time"
        overview={overview}
        hrefOf={(since, until) => toPlans({ since, until })}
        onRange={(since, until) => setQuery({ since, until, last: null }, { replace: false })}
      />
      {totalOf(overview.plans) > 0 ? null : (
        <Empty title="No plan began in this time">
          <p>
            <a href="/">Ask a question</a>, or look further back.
          </p>
        </Empty>
      )}
      <div class="parts">
        <Failures overview={overview} toPlans={toPlans} />
        <Open caller={whose} overview={overview} toPlans={toOpen} />
        <Tools
          title="Slowest tools"
          tools={overview.tools.filter((tool) => tool.duration_ms !== null).slice(0, 10)}
          toPlans={toPlans}
        />
        <Tools
          title="Tools that fail most"
          tools={overview.tools
            .filter(({ failures }) => failures > 0)
            .toSorted((a, b) => b.failures - a.failures)
            .slice(0, 10)}
          toPlans={toPlans}
        />
        <Costs
          title="Cost by model"
          spent={overview.models.map(({ model, ...rest }) => ({ name: model, href: toPlans({ model }), ...rest }))}
        />
        <Costs
          title="Cost by caller"
          spent={overview.callers.map(({ caller: name, ...rest }) => ({
            name,
            href: toPlans(isAdmin.value ? { caller: name } : {}),
            ...rest
          }))}
        />
        <Replicas overview={overview} />
      </div>
    </>
  )
}

/** What has become of the plans of a time, and what waits now. Each number leads to the plans that it counts. */
export const OverviewPage = () => {
  const { query } = here.value
  const since = instantOf(query.get("since"))
  const until = instantOf(query.get("until"))
  const isFixed = since !== undefined && until !== undefined
  const span = isFixed ? undefined : spanOf(query.get("last"), "24h")
  const caller = query.get("caller") ?? undefined
  const { data, error } = useResource(
    query.toString(),
    (signal) =>
      bowline.overview(span === undefined ? { since, until, caller } : { since: beginOf(span, now()), caller }, {
        signal
      }),
    { every: 10_000 }
  )
  const overview = data.value
  const length = isFixed ? Date.parse(until) - Date.parse(since) : 0
  return (
    <>
      <h1>Overview</h1>
      <div class="range-choice">
        <SpanLinks shown={span} />
        {isFixed ? (
          <span>
            {axisTime(Date.parse(since), length)} to {axisTime(Date.parse(until), length)}
          </span>
        ) : null}
        {overview === undefined || !isAdmin.value ? null : (
          <span class="dim">{overview.caller === null ? "plans of everybody" : `plans of ${overview.caller}`}</span>
        )}
        <a href={`/usage${changed(new URLSearchParams(), { caller: caller ?? null })}`}>Usage by day</a>
      </div>
      <Problem error={error.value} />
      {overview === undefined ? error.value === undefined ? <Loading /> : null : <Whole overview={overview} />}
    </>
  )
}
