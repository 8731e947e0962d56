import type { Signal } from "@preact/signals"
import { ValueFields, type WrittenValue } from "../call/ValueForm.tsx"
import type { Deciding } from "./Pending.ts"

export type Remember = NonNullable<Deciding["remember"]> | ""

/** Other arguments for a call, and whether its tool asks again: both go with an approval. */
export const ChangedCall = ({
  isChanged,
  remember,
  value
}: {
  readonly isChanged: Signal<boolean>
  readonly remember: Signal<Remember>
  readonly value: WrittenValue
}) => (
  <>
    <details
      onToggle={(event) => {
        isChanged.value = event.currentTarget.open
      }}
    >
      <summary>Change the arguments</summary>
      <ValueFields label="Call it with" value={value} />
    </details>
    <label class="remember">
      Next time
      <select
        value={remember.value}
        onChange={({ currentTarget: { value } }) => {
          remember.value = value === "plan" || value === "session" ? value : ""
        }}
      >
        <option value="">ask again</option>
        <option value="plan">approve this tool for the rest of the plan</option>
        <option value="session">approve this tool for the rest of the session</option>
      </select>
    </label>
  </>
)
