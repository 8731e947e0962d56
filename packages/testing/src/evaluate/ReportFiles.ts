import type { Difference } from "./Statistics.ts"
import { failingIn, type Metric, type Report, type Run, type Summary } from "./Report.ts"

/** Numbers as people read them: shares in percent, times in milliseconds or seconds, costs in US dollars. */
export const show = (metric: Metric, value: number | undefined): string => {
  if (value === undefined) return ""
  switch (metric) {
    case "pass":
      return `${(value * 100).toFixed(1)} %`
    case "score":
      return value.toFixed(3)
    case "cost_usd":
      return `$${value.toFixed(Math.abs(value) < 0.1 ? 5 : 3)}`
    case "first_token_ms":
    case "duration_ms":
      return Math.abs(value) < 10_000 ? `${Math.round(value)} ms` : `${(value / 1_000).toFixed(1)} s`
    case "steps":
    case "calls":
      return value.toFixed(1)
  }
}

const signed = (metric: Metric, value: number): string =>
  value < 0 ? `−${show(metric, -value)}` : `+${show(metric, value)}`

/** A difference from the first model, in words. */
export const told = (metric: Metric, { high, low, mean, needed }: Difference): string => {
  const interval = `${signed(metric, mean)} (${signed(metric, low)} to ${signed(metric, high)})`
  if (low > 0 || high < 0) return `${interval}: they differ`
  return needed === null ? `${interval}: no difference was seen` : `${interval}: ${needed} cases would tell them apart`
}

/** The names of what is measured, as titles have them. */
export const titles: { readonly [Name in Metric]: string } = {
  pass: "pass",
  score: "score",
  cost_usd: "cost",
  first_token_ms: "first token",
  duration_ms: "time",
  steps: "steps",
  calls: "calls"
}

/** What neither XML nor HTML may have. */
// oxlint-disable-next-line no-control-regex
const forbidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }
const escaped = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(forbidden, "\ufffd")
    .replaceAll(/[&<>"]/g, (character) => entities[character] ?? "")

const seconds = (runs: ReadonlyArray<Run>): string =>
  (runs.reduce((sum, { duration_ms }) => sum + (duration_ms ?? 0), 0) / 1_000).toFixed(3)

/** The report as JUnit XML: a suite for each model, a test for each case. */
export const junitOf = ({ cases, models, runs }: Report): string => {
  const suites = models.map((model) => {
    const own = Map.groupBy(
      runs.filter((run) => run.model === model),
      (run) => run.case
    )
    let failures = 0
    const tests = cases.map(({ id }) => {
      const ofCase = own.get(id) ?? []
      const failed = ofCase.filter(({ pass }) => !pass)
      const opening = `<testcase classname="${escaped(model)}" name="${escaped(id)}" time="${seconds(ofCase)}"`
      if (failed.length === 0) return `${opening}/>`
      failures++
      const why = failed.map((run) => `#${run.repeat} ${run.plan_id ?? ""}: ${run.why.join("; ")}`).join("\n")
      const message = `${failed.length} of ${ofCase.length} runs fail`
      return `${opening}><failure message="${message}">${escaped(why)}</failure></testcase>`
    })
    const time = seconds(runs.filter((run) => run.model === model))
    return `<testsuite name="${escaped(model)}" tests="${tests.length}" failures="${failures}" time="${time}">\n${tests.join("\n")}\n</testsuite>`
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join("\n")}\n</testsuites>\n`
}

const style = `:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
.bad{color:#c22;font-weight:600}.good{color:#282}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0}summary{cursor:pointer}`

const row = (cells: ReadonlyArray<string>): string =>
  `<tr>${cells.map((cell) => `<td class="n">${cell}</td>`).join("")}</tr>`

const shown: ReadonlyArray<Metric> = ["pass", "score", "cost_usd", "first_token_ms", "duration_ms", "steps", "calls"]

const summaryRow = ({ measured, model, runs }: Summary): string =>
  row([
    escaped(model),
    String(runs),
    ...shown.map((metric) => {
      const value = measured[metric]
      if (value === undefined) return "–"
      const mean = show(metric, value.mean)
      return metric === "pass"
        ? mean
        : `${mean}<br><small>${show(metric, value.p50)} / ${show(metric, value.p95)}</small>`
    })
  ])

const runCell = (run: Run | undefined): string => {
  if (run === undefined) return "–"
  const mark = run.pass ? `<span class="good">pass</span>` : `<span class="bad">fails</span>`
  const score = run.score === null ? "" : ` ${show("score", run.score)}`
  const why = run.why.length === 0 ? "" : `<pre class="bad">${escaped(run.why.join("\n"))}</pre>`
  return `<details><summary>${mark}${score}</summary>${why}<pre>${escaped(run.text)}</pre><small>${escaped(run.plan_id ?? "")}</small></details>`
}

/** The report as a page: one file that loads nothing. */
export const pageOf = (report: Report): string => {
  const { cases, judge, models, repeat, runs, started_at, summaries, tools } = report
  const byPlace = new Map(runs.map((run) => [JSON.stringify([run.case, run.model, run.repeat]), run]))
  const repeats = Array.from({ length: repeat }, (_, index) => index + 1)
  const failing = failingIn(report).length
  const [first = ""] = models
  const differences = summaries.flatMap(({ differences, model }) =>
    shown.flatMap((metric) => {
      const one = differences[metric]
      return one === undefined ? [] : [row([escaped(model), titles[metric], told(metric, one), String(one.cases)])]
    })
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Evaluation of ${escaped(models.join(", "))}</title><style>${style}</style></head><body>
<h1>Evaluation</h1>
<p>${escaped(started_at)} · ${cases.length} cases, each ${repeat} times · calls ${tools}${judge === null ? "" : ` · judged by ${escaped(judge)}`} · ${failing === 0 ? `<span class="good">all pass</span>` : `<span class="bad">${failing} fail</span>`}</p>
<table><thead><tr><th>model</th><th>runs</th>${shown.map((metric) => `<th>${titles[metric]}${metric === "pass" ? "" : "<br><small>p50 / p95</small>"}</th>`).join("")}</tr></thead><tbody>
${summaries.map(summaryRow).join("\n")}
</tbody></table>
${differences.length === 0 ? "" : `<h2>Against ${escaped(first)}</h2><table><thead><tr><th>model</th><th></th><th>difference (95 % interval)</th><th>cases</th></tr></thead><tbody>\n${differences.join("\n")}\n</tbody></table>`}
<h2>Cases</h2>
<table><thead><tr><th>case</th>${models.map((model) => `<th>${escaped(model)}</th>`).join("")}</tr></thead><tbody>
${cases
  .map(({ id, question }) => {
    const cells = models.map(
      (model) =>
        `<td>${repeats.map((repeat) => runCell(byPlace.get(JSON.stringify([id, model, repeat])))).join("")}</td>`
    )
    return `<tr><td><b>${escaped(id)}</b><pre>${escaped(question)}</pre></td>${cells.join("")}</tr>`
  })
  .join("\n")}
</tbody></table></body></html>
`
}
