import type { Json } from "@bowline/client"
import { useMemo } from "preact/hooks"
import { CopyButton } from "../shell/CopyButton.tsx"
import { Sign } from "../shell/Sign.tsx"
import { count, counted, pretty } from "../text/Format.ts"
import { type Field, fieldsOf } from "./FieldWords.ts"

/** A call may have thousands of arguments: the others are in its JSON. */
const mostRows = 100

/** Longer values are cut in the table; JSON has all of them. */
const longest = 2_000

const shown = (value: Json): string => {
  const text = typeof value === "object" && value !== null ? JSON.stringify(value) : pretty(value)
  return text.length > longest ? `${text.slice(0, longest)}…` : text
}

const Row = ({ field: { limits, name, risk, value, words } }: { readonly field: Field }) => (
  <tr class={risk === null ? undefined : "risky"}>
    <th scope="row">
      <code>{name}</code>
    </th>
    <td class="value">
      <span class={typeof value === "number" ? "code figure" : "code"}>
        {typeof value === "number" && risk !== null ? count(value) : shown(value)}
      </span>
    </td>
    <td class="words">
      {risk === null ? null : (
        <span class="risk tone-warn">
          <Sign of="warn" />
          look twice: {risk}.{" "}
        </span>
      )}
      {[words, limits].filter((part) => part !== null).join(" · ")}
    </td>
  </tr>
)

/** The arguments of a call as a table, each with what the schema of its tool says of it, and as JSON. */
export const Arguments = ({
  input,
  schema,
  title = "Arguments"
}: {
  readonly input: Json
  readonly schema: { readonly [key: string]: Json } | null
  readonly title?: string
}) => {
  const fields = useMemo(() => fieldsOf(input, schema), [input, schema])
  const json = (
    <pre tabIndex={0} aria-label={`${title} as JSON`}>
      {pretty(input)}
    </pre>
  )
  return (
    <section class="block" aria-label={title}>
      <header>
        <h3>{title}</h3>
        <CopyButton label="Copy" what={`Copy: ${title}`} text={() => pretty(input)} />
      </header>
      {fields === null ? (
        json
      ) : fields.length === 0 ? (
        <p class="dim">It takes none.</p>
      ) : (
        <>
          <table class="arguments" aria-label={title}>
            <tbody>
              {fields.slice(0, mostRows).map((field) => (
                <Row key={field.name} field={field} />
              ))}
            </tbody>
          </table>
          {fields.length > mostRows ? (
            <p class="dim">{counted(fields.length - mostRows, "more field")} in the JSON.</p>
          ) : null}
          <details>
            <summary>As JSON</summary>
            {json}
          </details>
        </>
      )}
    </section>
  )
}
