import { here } from "../route/Location.ts"
import { changed } from "../route/Route.ts"
import { type SpanName, spans } from "./TimeRange.ts"

/** Links that look back from now. Each is a page of its own: Back returns to the range before. */
export const SpanLinks = ({ shown }: { readonly shown: SpanName | undefined }) => {
  const { path, query } = here.value
  return (
    <nav class="spans" aria-label="Time">
      <ul>
        {spans.map(({ label, name }) => (
          <li key={name}>
            <a
              class="button quiet"
              href={path + changed(query, { last: name, since: null, until: null, cursor: null })}
              aria-current={name === shown ? "true" : undefined}
            >
              {label}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}
