import { computed, effect, signal } from "@preact/signals"
import { sleep } from "./GatewayClock.ts"
import { fetchOwn, woken } from "./Gateway.ts"

/** What the gateway says of itself and of who looks at it. */
export interface ConsoleConfig {
  readonly version: string
  readonly trace_url: string | null
  readonly presets: boolean
  readonly approvals: boolean
  readonly caller: string
  readonly admin: boolean
}

export const config = signal<ConsoleConfig | undefined>(undefined)
export const isAdmin = computed(() => config.value?.admin === true)

/** Whether a plan of this caller can be opened here: admins see those of others in lists only. */
export const isOwn = (caller: string): boolean => config.value === undefined || config.value.caller === caller

/** The wait for an answer, and that before the next question, in milliseconds. */
const answersWithin = 10_000
const retryAfter = 2_000

/** Asks until the gateway answers. Where it wants a login it is asked again behind that. */
const read = async (signal: AbortSignal): Promise<void> => {
  while (!signal.aborted) {
    try {
      const response = await fetchOwn("/console/config", {
        headers: { accept: "application/json" },
        signal: AbortSignal.any([signal, AbortSignal.timeout(answersWithin)])
      })
      if (response.status === 401) return
      // The gateway has the shapes of its API.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      const answer = response.ok ? ((await response.json()) as ConsoleConfig) : undefined
      if (answer !== undefined && !signal.aborted) {
        config.value = answer
        return
      }
    } catch {
      // The gateway is away.
    }
    await sleep(retryAfter, signal)
  }
}

/** Reads the configuration now, and again after each login, which may be another caller's. */
export const watchConfig = (): void => {
  effect(() => {
    const own = new AbortController()
    if (woken.value >= 0) void read(own.signal)
    return () => own.abort()
  })
}

/** Where a trace can be looked at. The template has `{trace_id}` in it. */
export const traceHref = (traceId: string | null): string | undefined => {
  const template = config.value?.trace_url
  return template == null || traceId === null
    ? undefined
    : template.replaceAll("{trace_id}", encodeURIComponent(traceId))
}
