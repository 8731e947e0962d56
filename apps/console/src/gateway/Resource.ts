import { BowlineError } from "@bowline/client"
import { batch, type ReadonlySignal, signal, useSignalEffect } from "@preact/signals"
import { useEffect, useMemo, useRef } from "preact/hooks"
import { woken } from "./Gateway.ts"

/** What the gateway said last, and what went wrong since. */
export interface Resource<A> {
  readonly data: ReadonlySignal<A | undefined>
  readonly error: ReadonlySignal<unknown>
  /** Asks now. An answer that is still under way no longer counts. */
  readonly refresh: () => void
}

interface Options {
  /** Asks again so many milliseconds after each answer, while the tab is visible. */
  readonly every?: number
}

const make = <A>(load: (signal: AbortSignal) => Promise<A>, { every }: Options) => {
  const data = signal<A | undefined>(undefined)
  const error = signal<unknown>(undefined)
  let current: AbortController | undefined
  let timer: ReturnType<typeof setTimeout> | undefined

  const ask = async (own: AbortController): Promise<void> => {
    try {
      const answer = await load(own.signal)
      if (current !== own) return
      batch(() => {
        // The same answer is the same value: nothing is shown anew.
        if (JSON.stringify(answer) !== JSON.stringify(data.peek())) data.value = answer
        error.value = undefined
      })
    } catch (cause) {
      if (current === own) error.value = cause
    }
    if (current === own && every !== undefined) timer = setTimeout(again, every)
  }

  const again = () => {
    if (!document.hidden) refresh()
  }

  const stop = () => {
    clearTimeout(timer)
    current?.abort()
    current = undefined
  }

  const refresh = () => {
    stop()
    current = new AbortController()
    void ask(current)
  }

  return { data, error, refresh, stop }
}

/** Reads something of the gateway for as long as a component shows it. Another `key` is another thing: nothing of the old one is shown. */
export const useResource = <A>(
  key: string,
  load: (signal: AbortSignal) => Promise<A>,
  options: Options = {}
): Resource<A> => {
  const resource = useMemo(() => make(load, options), [key])
  const wakes = useRef(woken.peek())
  useSignalEffect(() => {
    if (woken.value === wakes.current) return
    wakes.current = woken.value
    resource.refresh()
  })
  useEffect(() => {
    resource.refresh()
    return resource.stop
  }, [resource])
  return resource
}

/** Whether the gateway said that there is no such thing, or not for this caller. */
export const isProblem = (error: unknown, code: "not_found" | "forbidden" | "unauthorized"): boolean =>
  error instanceof BowlineError && error.code === code
