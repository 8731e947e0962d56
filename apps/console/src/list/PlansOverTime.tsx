import type { Overview, PlanState } from "@bowline/client"
import { config } from "../gateway/Config.ts"
import { bowline } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { go, here } from "../route/Location.ts"
import { changed } from "../route/Route.ts"
import { asked, type Filters } from "./Filters.ts"
import { StateChart } from "./StateChart.tsx"
import { beginOf } from "./TimeRange.ts"

/** What `GET /overview` looks back on at most, in milliseconds. */
const longest = 604_800_000

/** The time that the filters say, or the last day; undefined if that is longer than what can be counted. */
const timeOf = (filters: Filters) => {
  const { since: given, until } = asked(filters, now())
  const end = typeof until === "string" ? Date.parse(until) : now()
  const since = typeof given === "string" ? given : beginOf("24h", end)
  const length = end - Date.parse(since)
  return length > 0 && length <= longest
    ? { since, ...(typeof until === "string" && { until }), caller: filters.caller || config.value?.caller }
    : undefined
}

/** Only the states that are looked at. */
const only = (states: ReadonlyArray<PlanState>, overview: Overview): Overview =>
  states.length === 0
    ? overview
    : {
        ...overview,
        stretches: overview.stretches.map((stretch) => ({
          ...stretch,
          plans: {
            queued: 0,
            running: 0,
            waiting: 0,
            completed: 0,
            failed: 0,
            aborted: 0,
            ...Object.fromEntries(states.map((state) => [state, stretch.plans[state]]))
          }
        }))
      }

/** The plans of the time by their states, whatever else the filters say. A drag makes its range the time of the list. */
export const PlansOverTime = ({ filters }: { readonly filters: Filters }) => {
  const { path, query } = here.value
  const { caller, last, since, until } = filters
  const { data } = useResource(
    [caller, last, since, until, config.value?.caller].join("\n"),
    async (signal) => {
      const time = timeOf(filters)
      return time === undefined ? undefined : bowline.overview(time, { signal })
    },
    { every: 15_000 }
  )
  const hrefOf = (since: string, until: string) => path + changed(query, { since, until, last: null, cursor: null })
  return data.value === undefined ? null : (
    <StateChart
      label="Plans by state, over time"
      overview={only(filters.state, data.value)}
      isSmall
      hrefOf={hrefOf}
      onRange={(since, until) => go(hrefOf(since, until))}
    />
  )
}
