import { signal } from "@preact/signals"

/** How long a hidden tab keeps its stream, in milliseconds. */
const grace = 30_000

/** Whether somebody looks at this tab, or did within the last 30 s. */
export const isWatched = signal(!document.hidden)

let timer: ReturnType<typeof setTimeout> | undefined

// The tabs of a browser share its streams.
const tabs = new BroadcastChannel("bowline-streams")

/** Takes the stream of a tab that nobody looks at, before its 30 s are over, if somebody looks at this one. */
export const wantStream = (): void => {
  if (!document.hidden) tabs.postMessage("wanted")
}

/** Keeps track of whether the tab is visible. */
export const watchVisibility = (): void => {
  tabs.addEventListener("message", () => {
    if (!document.hidden) return
    clearTimeout(timer)
    isWatched.value = false
  })
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer)
    if (!document.hidden) isWatched.value = true
    else
      timer = setTimeout(() => {
        isWatched.value = false
      }, grace)
  })
}
