import { signal } from "@preact/signals"

/** How long a hidden tab keeps its stream, in milliseconds. */
const grace = 30_000

/** Whether somebody looks at this tab, or did within the last 30 s. */
export const isWatched = signal(!document.hidden)

let timer: ReturnType<typeof setTimeout> | undefined

/** Keeps track of whether the tab is visible. */
export const watchVisibility = (): void => {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer)
    if (!document.hidden) isWatched.value = true
    else
      timer = setTimeout(() => {
        isWatched.value = false
      }, grace)
  })
}
