import { computed, signal } from "@preact/signals"
import { changed, parse } from "./Route.ts"

const read = () => ({ path: location.pathname, query: new URLSearchParams(location.search) })

/** Where the tab is. */
export const here = signal(read())
export const route = computed(() => parse(here.value.path))
export const page = computed(() => route.value.page)

/** What the page is about, for its title, where the path alone does not say it. */
export const subject = signal("")

/** Names it for as long as the page is shown. */
export const nameSubject = (text: string): (() => void) => {
  subject.value = text
  return () => {
    subject.value = ""
  }
}

/** Goes to a page of the console. Back returns from it, unless it takes the place of this one. */
export const go = (href: string, { replace = false } = {}): void => {
  history[replace ? "replaceState" : "pushState"](null, "", href)
  here.value = read()
}

/** Changes parameters of this page's query. What is typed or selected takes the place of the entry: Back leaves the page. */
export const setQuery = (changes: Parameters<typeof changed>[1], { replace = true } = {}): void =>
  go(location.pathname + changed(here.peek().query, changes), { replace })

const isPlainClick = (event: MouseEvent): boolean =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey && !event.defaultPrevented

/** Lets links to pages of the console change the page without loading it. */
export const takeLinks = (): void => {
  addEventListener("popstate", () => {
    here.value = read()
  })
  addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null
    if (link === null || !isPlainClick(event) || link.target !== "" || link.hasAttribute("download")) return
    if (link.origin !== location.origin || link.hash !== "" || parse(link.pathname).page === "unknown") return
    event.preventDefault()
    go(link.href)
    scrollTo(0, 0)
  })
}
