import type { Json } from "@bowline/client"
import { type Signal, useSignal } from "@preact/signals"
import { useMemo } from "preact/hooks"
import { pretty } from "../text/Format.ts"
import {
  type FormField,
  formOf,
  type JsonObject,
  type Read,
  readForm,
  readJson,
  type Typed,
  typedOf
} from "./FormValues.ts"

/** A value that somebody writes: in the fields of its schema, or as JSON. */
export interface WrittenValue {
  readonly fields: ReadonlyArray<FormField>
  readonly typed: Signal<Typed>
  readonly json: Signal<string>
  /** Whether it is written as JSON. */
  readonly isJson: Signal<boolean>
  readonly read: () => Read
  readonly toggle: () => void
}

/** Keeps what is written for as long as the component is shown. Another `key` is another value. */
export const useValue = (schema: Json, given: JsonObject, key: string): WrittenValue => {
  const fields = useMemo(() => formOf(schema), [key])
  const typed = useSignal<Typed>({})
  const json = useSignal("")
  const isJson = useSignal(false)
  useMemo(() => {
    typed.value = typedOf(fields, given)
    json.value = pretty(given)
    isJson.value = fields.length === 0
  }, [key])
  const read = (): Read => (isJson.value ? readJson(json.value) : readForm(fields, typed.value, given))
  const toggle = () => {
    if (isJson.value) {
      const written = readJson(json.value)
      if ("value" in written) typed.value = typedOf(fields, written.value)
    } else {
      const written = readForm(fields, typed.value, given)
      if ("value" in written) json.value = pretty(written.value)
    }
    isJson.value = !isJson.value
  }
  return { fields, typed, json, isJson, read, toggle }
}

const Field = ({ field, typed }: { readonly field: FormField; readonly typed: Signal<Typed> }) => {
  const { choices, kind, name, required, words } = field
  const value = typed.value[name] ?? ""
  const onInput = (event: { readonly currentTarget: { readonly value: string } }) => {
    typed.value = { ...typed.value, [name]: event.currentTarget.value }
  }
  return (
    <label>
      <span>
        <code>{name}</code> {words === null ? null : <span class="dim">{words}</span>}
        {required ? null : <span class="dim"> (optional)</span>}
      </span>
      {kind === "choice" ? (
        <select value={value} onChange={onInput}>
          <option value="">–</option>
          {choices.map((choice) => (
            <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
              {typeof choice === "string" ? choice : JSON.stringify(choice)}
            </option>
          ))}
        </select>
      ) : kind === "number" ? (
        <input value={value} inputMode="decimal" onInput={onInput} />
      ) : (
        <textarea
          rows={kind === "json" ? 3 : 1}
          class={kind === "json" ? "code" : undefined}
          value={value}
          onInput={onInput}
        />
      )}
    </label>
  )
}

/** The fields of a value, or its JSON; `label` says what it is. */
export const ValueFields = ({ label, value }: { readonly label: string; readonly value: WrittenValue }) => {
  const { fields, isJson, json, toggle, typed } = value
  return (
    <fieldset class="value-fields">
      <legend>{label}</legend>
      {isJson.value ? (
        <label>
          JSON
          <textarea
            class="code"
            rows={5}
            spellcheck={false}
            value={json.value}
            onInput={(event) => {
              json.value = event.currentTarget.value
            }}
          />
        </label>
      ) : (
        fields.map((field) => <Field key={field.name} field={field} typed={typed} />)
      )}
      {fields.length === 0 ? null : (
        <button type="button" class="quiet" onClick={toggle}>
          {isJson.value ? "As a form" : "As JSON"}
        </button>
      )}
    </fieldset>
  )
}
