import type { Spending } from "@bowline/client"
import { isAdmin } from "../gateway/Config.ts"
import { bowline } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { here } from "../route/Location.ts"
import { changed } from "../route/Route.ts"
import { Loading, Problem } from "../shell/Notice.tsx"
import { cost, count, counted } from "../text/Format.ts"
import { daysOf, totalOf } from "./Days.ts"
import { Bar, Part } from "./Parts.tsx"

const ways = [
  { by: "day", label: "Day" },
  { by: "model", label: "Model" },
  { by: "preset", label: "Preset" },
  { by: "caller", label: "Caller", admin: true }
] as const

type By = (typeof ways)[number]["by"]

const spans = [
  { days: 7, label: "7 d" },
  { days: 30, label: "30 d" },
  { days: 90, label: "90 d" },
  { days: 365, label: "1 y" }
] as const

/** Links that change one parameter of the page. */
const Choice = ({
  label,
  name,
  options,
  shown
}: {
  readonly label: string
  readonly name: string
  readonly options: ReadonlyArray<readonly [value: string, label: string]>
  readonly shown: string
}) => {
  const { path, query } = here.value
  return (
    <nav class="spans" aria-label={label}>
      <ul>
        {options.map(([value, text]) => (
          <li key={value}>
            <a
              class="button quiet"
              href={path + changed(query, { [name]: value })}
              aria-current={value === shown ? "true" : undefined}
            >
              {text}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

const nameOf = (row: Spending, by: By): string => row[by] ?? "no preset"

const Row = ({ by, most, row }: { readonly row: Spending; readonly by: By; readonly most: number }) => (
  <tr>
    <th scope="row" class="wide">
      {nameOf(row, by)}
    </th>
    <td class="fit number" data-label="Plans">
      {count(row.plans)}
    </td>
    <td class="fit number" data-label="Input">
      {count(row.input_tokens)}
    </td>
    <td class="fit number" data-label="Cached">
      {row.input_tokens === 0 ? "" : `${Math.round((100 * row.cached_input_tokens) / row.input_tokens)} %`}
    </td>
    <td class="fit number" data-label="Output">
      {count(row.output_tokens)}
    </td>
    <Bar label="Cost" value={row.cost_usd ?? 0} most={most}>
      {cost(row.cost_usd)}
    </Bar>
  </tr>
)

/** What plans have used, a line a day, with a bar as long as its cost; or by model, preset or caller. */
export const UsagePage = () => {
  const { query } = here.value
  const by = ways.find((way) => way.by === query.get("by"))?.by ?? "day"
  const days = spans.find((span) => String(span.days) === query.get("days"))?.days ?? 30
  const caller = query.get("caller") ?? undefined
  const from = new Date(now() - (days - 1) * 86_400_000).toISOString().slice(0, 10)
  const to = new Date(now()).toISOString().slice(0, 10)
  const { data, error } = useResource(
    query.toString(),
    (signal) => bowline.usage({ by, from, to, caller }, { signal }),
    {
      every: 60_000
    }
  )
  const rows = data.value?.rows
  const shown = rows === undefined || by !== "day" ? rows : daysOf(from, to, rows)
  const total = totalOf(rows ?? [])
  const most = Math.max(0, ...(rows ?? []).map(({ cost_usd }) => cost_usd ?? 0))
  const label = ways.find((way) => way.by === by)?.label ?? ""
  return (
    <>
      <h1>Usage</h1>
      <div class="range-choice">
        <Choice
          label="Days"
          name="days"
          shown={String(days)}
          options={spans.map(({ days, label }) => [String(days), label])}
        />
        <Choice
          label="Added up by"
          name="by"
          shown={by}
          options={ways.filter((way) => !("admin" in way) || isAdmin.value).map(({ by, label }) => [by, label])}
        />
        {isAdmin.value ? <span class="dim">{caller === undefined ? "of everybody" : `of ${caller}`}</span> : null}
      </div>
      <Problem error={error.value} />
      {shown === undefined ? (
        error.value === undefined ? (
          <Loading />
        ) : null
      ) : (
        <>
          <p>
            {counted(total.plans, "plan")} from {from} to {to}, in UTC: {cost(total.cost_usd)}
          </p>
          <Part
            title={`Usage by ${label.toLowerCase()}`}
            head={[[label], ["Plans", true], ["Input", true], ["Cached", true], ["Output", true], ["Cost", true]]}
            isEmpty={shown.length === 0}
            none="No plan has used anything in this time."
          >
            {shown.map((row) => (
              <Row key={nameOf(row, by)} row={row} by={by} most={most} />
            ))}
          </Part>
        </>
      )}
    </>
  )
}
