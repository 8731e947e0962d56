import { here } from "../route/Location.ts"
import { changed } from "../route/Route.ts"

/** The way to the next page of a list, and back to its first one. Back of the browser leads to the page before. */
export const Pager = ({ next }: { readonly next: string | null }) => {
  const { path, query } = here.value
  const isFirst = query.get("cursor") === null
  return isFirst && next === null ? null : (
    <nav class="pager" aria-label="Pages of the list">
      {isFirst ? null : <a href={path + changed(query, { cursor: null })}>First page</a>}
      {next === null ? (
        <span class="dim">This is the end.</span>
      ) : (
        <a href={path + changed(query, { cursor: next })}>Next page</a>
      )}
    </nav>
  )
}
