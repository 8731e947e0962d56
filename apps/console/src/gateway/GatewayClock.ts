import { signal } from "@preact/signals"

/** How far the gateway's clock is ahead of this machine's, in milliseconds; 0 while they agree within seconds. */
const skew = signal(0)

/** Learns the gateway's time from an answer. `Date` has whole seconds, so that smaller differences mean nothing. */
export const learnTime = (date: string | null, askedAt: number, answeredAt: number): void => {
  const told = Date.parse(date ?? "")
  if (Number.isNaN(told)) return
  const difference = told + 500 - (askedAt + answeredAt) / 2
  skew.value = Math.abs(difference) > 2_000 + (answeredAt - askedAt) ? Math.round(difference) : 0
}

/** Waits so many milliseconds, or until the signal is aborted. */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((wake) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", end)
      wake()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener("abort", end)
  })

const tick = signal(Date.now())

setInterval(() => {
  if (!document.hidden) tick.value = Date.now()
}, 1_000)

/** The gateway's time, in epoch milliseconds. A component that reads it renders again each second while the tab is visible. */
export const now = (): number => Math.max(tick.value, Date.now()) + skew.value
