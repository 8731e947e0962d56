import type { TargetedEvent } from "preact"
import { useLayoutEffect, useRef } from "preact/hooks"
import { isAdmin } from "../gateway/Config.ts"
import { here, setQuery } from "../route/Location.ts"
import { active, type Filters, filtersOf, states, type TextFilter } from "./Filters.ts"
import { SpanLinks } from "./SpanLinks.tsx"
import { fieldOf, instantOf } from "./TimeRange.ts"

/** A filter that has changed starts at the first page. */
const set = (changes: Parameters<typeof setQuery>[0]) => setQuery({ ...changes, cursor: null })

const toggled = (filters: Filters, state: Filters["state"][number]) =>
  filters.state.includes(state) ? filters.state.filter((other) => other !== state) : [...filters.state, state]

const Text = ({
  filters,
  hint,
  label,
  name,
  isTime = false
}: {
  readonly filters: Filters
  readonly label: string
  readonly name: TextFilter
  readonly hint?: string
  readonly isTime?: boolean
}) => {
  const value = isTime ? fieldOf(filters[name]) : filters[name]
  const field = useRef<HTMLInputElement>(null)
  // Only another URL changes what somebody is typing.
  useLayoutEffect(() => {
    if (field.current !== null) field.current.value = value
  }, [value])
  const onChange = ({ currentTarget: { value } }: TargetedEvent<HTMLInputElement>) =>
    set(isTime ? { [name]: instantOf(value) ?? null, last: null } : { [name]: value })
  return (
    <label>
      {label}
      {isTime ? (
        <input type="datetime-local" step="any" ref={field} onChange={onChange} />
      ) : (
        <input type="text" placeholder={hint} ref={field} onChange={onChange} />
      )}
    </label>
  )
}

/** The filters of the plans. They are in the URL, and nowhere else. */
export const FilterForm = () => {
  const filters = filtersOf(here.value.query)
  const count = active(filters)
  const inView = [filters.q !== "", filters.state.length > 0, filters.last !== undefined].filter(Boolean).length
  const further = count > inView
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <fieldset>
        <legend>State</legend>
        {states.map((state) => (
          <label key={state} class="check">
            <input
              type="checkbox"
              checked={filters.state.includes(state)}
              onChange={() => set({ state: toggled(filters, state) })}
            />
            {state}
          </label>
        ))}
      </fieldset>
      <Text filters={filters} name="q" label="Question has" />
      <SpanLinks shown={filters.last} />
      <details open={further}>
        <summary>More filters</summary>
        <div class="fields">
          <Text filters={filters} name="model" label="Model" />
          <Text filters={filters} name="error_code" label="Error code" />
          <Text filters={filters} name="reason" label="Reason of an abort" />
          <Text filters={filters} name="tool" label="Tool" />
          <Text filters={filters} name="agent" label="Agent" />
          <Text filters={filters} name="feedback" label="Feedback" hint="negative, positive or none" />
          <Text filters={filters} name="label" label="Label of feedback" />
          <Text filters={filters} name="metadata" label="Metadata" hint="key=value" />
          <Text filters={filters} name="session_id" label="Session" />
          {isAdmin.value ? <Text filters={filters} name="caller" label="Caller" hint="* is everybody" /> : null}
          <Text filters={filters} name="since" label="Since" isTime />
          <Text filters={filters} name="until" label="Until" isTime />
        </div>
      </details>
      {count === 0 ? null : (
        <a class="button quiet" href="/plans">
          Clear filters
        </a>
      )}
    </form>
  )
}
