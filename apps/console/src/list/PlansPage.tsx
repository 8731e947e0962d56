import { useSignal } from "@preact/signals"
import { config } from "../gateway/Config.ts"
import { bowline } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { here } from "../route/Location.ts"
import { curl } from "../plan/Request.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { BulkCancel } from "./BulkCancel.tsx"
import { FilterForm } from "./FilterForm.tsx"
import { active, asked, filtersOf } from "./Filters.ts"
import { Pager } from "./Pager.tsx"
import { PlansOverTime } from "./PlansOverTime.tsx"
import { PlanTable } from "./PlanTable.tsx"

/** All plans, filtered: one request a page, asked again every few seconds. */
export const PlansPage = () => {
  const { query } = here.value
  const selection = useSignal<ReadonlySet<string>>(new Set())
  const filters = filtersOf(query)
  const cursor = query.get("cursor") ?? undefined
  const { data, error, refresh } = useResource(
    query.toString(),
    (signal) => bowline.plans.list({ ...asked(filters, now()), limit: 50 }).page(cursor, { signal }),
    { every: 3_000 }
  )
  const page = data.value
  return (
    <>
      <h1>Plans</h1>
      <FilterForm />
      <PlansOverTime filters={filters} />
      <Problem error={error.value} />
      <BulkCancel filters={filters} selection={selection} onDone={refresh} />
      {page === undefined ? (
        error.value === undefined ? (
          <Loading />
        ) : null
      ) : page.plans.length > 0 ? (
        <PlanTable label="Plans" plans={page.plans} selection={selection} />
      ) : active(filters) > 0 ? (
        <Empty title="No plan matches these filters">
          <p>
            <a href="/plans">Clear the filters</a> to see all plans.
          </p>
        </Empty>
      ) : (
        <Empty title="No plans yet">
          <p>
            <a href="/">Ask a question</a>, or post one to the API:
          </p>
          <pre tabIndex={0}>
            {curl(location.origin, { question: "What is a bowline?" }, config.value?.caller !== "anonymous")}
          </pre>
        </Empty>
      )}
      <Pager next={page?.next_cursor ?? null} />
    </>
  )
}
