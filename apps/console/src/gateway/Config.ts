import { computed, effect, signal } from "@preact/signals"
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

const read = async (): Promise<void> => {
  const response = await fetchOwn("/console/config", { headers: { accept: "application/json" } })
  // The gateway has the shapes of its API.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  if (response.ok) config.value = (await response.json()) as ConsoleConfig
}

/** Reads the configuration now, and again after each login, which may be another caller's. */
export const watchConfig = (): void => {
  effect(() => {
    if (woken.value >= 0) void read().catch(() => undefined)
  })
}

/** Where a trace can be looked at. The template has `{trace_id}` in it. */
export const traceHref = (traceId: string | null): string | undefined => {
  const template = config.value?.trace_url
  return template == null || traceId === null
    ? undefined
    : template.replaceAll("{trace_id}", encodeURIComponent(traceId))
}
