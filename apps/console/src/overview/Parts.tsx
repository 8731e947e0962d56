import type { Overview } from "@bowline/client"
import type { ComponentChildren } from "preact"
import { now } from "../gateway/GatewayClock.ts"
import { StateOf, waitingHref } from "../plan/StateOf.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { cost, count, counted, duration, relative, shortId, unknown } from "../text/Format.ts"

/** Where the plans are listed that a number counts. */
export type PlansHref = (filter: Readonly<Record<string, string | null>>) => string

export const Part = ({
  children,
  head,
  isEmpty,
  none,
  title
}: {
  readonly title: string
  readonly head: ReadonlyArray<readonly [name: string, isNumber?: boolean]>
  readonly isEmpty: boolean
  readonly none: string
  readonly children: ComponentChildren
}) => (
  <section class="part">
    <h2>{title}</h2>
    {isEmpty ? (
      <p class="dim">{none}</p>
    ) : (
      <Table
        label={title}
        head={head.map(([name, isNumber]) => (
          <th key={name} scope="col" class={isNumber ? "number" : undefined}>
            {name}
          </th>
        ))}
      >
        {children}
      </Table>
    )}
  </section>
)

/** A number with a box as long as its part of the largest one. */
export const Bar = ({
  children,
  label,
  most,
  value
}: {
  readonly label: string
  readonly value: number
  readonly most: number
  readonly children: ComponentChildren
}) => (
  <td class="fit number bar-of" data-label={label}>
    <span class="box" aria-hidden="true" style={{ width: `${most > 0 ? (value / most) * 100 : 0}%` }} />
    <span>{children}</span>
  </td>
)

interface Given {
  readonly overview: Overview
  readonly toPlans: PlansHref
}

export const Failures = ({ overview: { failures }, toPlans }: Given) => {
  const most = Math.max(0, ...failures.map(({ plans }) => plans))
  return (
    <Part
      title="Why plans did not complete"
      head={[["Reason"], ["Plans", true]]}
      isEmpty={failures.length === 0}
      none="All of them completed, or are not over."
    >
      {failures.map(({ error_code, plans, reason }) => (
        <tr key={`${error_code} ${reason ?? ""}`}>
          <td class="wide code">{reason ?? error_code}</td>
          <Bar label="Plans" value={plans} most={most}>
            <a href={toPlans({ error_code, reason })}>{count(plans)}</a>
          </Bar>
        </tr>
      ))}
    </Part>
  )
}

/** What waits and runs at this moment, whenever it began. `caller` is whose plans they are, where an admin looks. */
export const Open = ({ caller, overview: { open }, toPlans }: Given & { readonly caller: string | null }) => (
  <Part
    title="What waits and runs now"
    head={[["Doing"], ["Plans", true], ["Oldest"]]}
    isEmpty={open.length === 0}
    none="Nothing waits, and nothing runs."
  >
    {open.map(({ oldest_at, plans, stage, state }) => (
      <tr key={`${state} ${stage ?? ""}`}>
        <td class="wide">
          <StateOf plan={{ state, stage }} />
        </td>
        <td class="fit number" data-label="Plans">
          <a href={waitingHref(stage, caller) ?? toPlans({ state })}>{count(plans)}</a>
        </td>
        <td class="fit dim" data-label="Oldest">
          {relative(Date.parse(oldest_at), now())}
        </td>
      </tr>
    ))}
  </Part>
)

export const Tools = ({
  title,
  toPlans,
  tools
}: Pick<Given, "toPlans"> & { readonly title: string; readonly tools: Overview["tools"] }) => (
  <Part
    title={title}
    head={[["Tool"], ["Calls", true], ["Failed", true], ["Half", true], ["95 %", true]]}
    isEmpty={tools.length === 0}
    none="None."
  >
    {tools.map(({ calls, duration_ms, failures, kind, tool }) => (
      <tr key={`${kind} ${tool}`}>
        <td class="wide">
          <a href={toPlans({ tool })}>{tool}</a> <span class="dim">{kind}</span>
        </td>
        <td class="fit number" data-label="Calls">
          {count(calls)}
        </td>
        <td class="fit number" data-label="Failed">
          {count(failures)} {calls === 0 ? null : <span class="dim">{Math.round((100 * failures) / calls)} %</span>}
        </td>
        <td class="fit number" data-label="Half">
          {duration_ms === null ? unknown : duration(duration_ms.p50)}
        </td>
        <td class="fit number" data-label="95 %">
          {duration_ms === null ? unknown : duration(duration_ms.p95)}
        </td>
      </tr>
    ))}
  </Part>
)

interface Spent {
  readonly name: string
  readonly href: string
  readonly plans: number
  readonly cost_usd: number | null
  readonly unpriced: number
}

export const Costs = ({ spent, title }: { readonly title: string; readonly spent: ReadonlyArray<Spent> }) => {
  const most = Math.max(0, ...spent.map(({ cost_usd }) => cost_usd ?? 0))
  return (
    <Part
      title={title}
      head={[
        [title.replace("Cost by ", "").replace(/^./, (first) => first.toUpperCase())],
        ["Plans", true],
        ["Cost", true]
      ]}
      isEmpty={spent.length === 0}
      none="Nobody asked."
    >
      {spent.map(({ cost_usd, href, name, plans, unpriced }) => (
        <tr key={name}>
          <td class="wide">{name}</td>
          <td class="fit number" data-label="Plans">
            <a href={href}>{count(plans)}</a>
          </td>
          <Bar label="Cost" value={cost_usd ?? 0} most={most}>
            {cost(cost_usd)}
            {cost_usd === null || unpriced === 0 ? null : (
              <span class="dim"> without {counted(unpriced, "plan")} of unknown price</span>
            )}
          </Bar>
        </tr>
      ))}
    </Part>
  )
}

export const Replicas = ({ overview: { replicas } }: Pick<Given, "overview">) =>
  replicas === null ? null : (
    <Part
      title="Replicas"
      head={[["Replica"], ["State"], ["Queued", true], ["Running", true]]}
      isEmpty={replicas.length === 0}
      none="None has run a plan yet."
    >
      {replicas.map(({ alive, queued, replica, running }) => (
        <tr key={replica}>
          <td class="wide code" title={replica}>
            {shortId(replica)}
          </td>
          <td class="fit">
            <State state={alive ? "ok" : "out"} words={alive ? "alive" : "gone"} />
          </td>
          <td class="fit number" data-label="Queued">
            {count(queued)}
          </td>
          <td class="fit number" data-label="Running">
            {count(running)}
          </td>
        </tr>
      ))}
    </Part>
  )
