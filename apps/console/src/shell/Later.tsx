import { signal } from "@preact/signals"
import type { ComponentType } from "preact"
import { useEffect } from "preact/hooks"
import { sleep } from "../gateway/GatewayClock.ts"
import { Loading } from "./Notice.tsx"

/** How long the first page has the network for itself, and how soon code that did not come is asked for again, in milliseconds. */
const fetchAfter = 1_000
const retryAfter = 2_000

/**
 * A page, or a part of one, whose code comes when it is first shown, or when the first page has had its time: whoever looks at it later does not
 * wait, also while the gateway is away.
 */
export const later = <Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> => {
  const loaded = signal<{ readonly Part: ComponentType<Props> } | undefined>(undefined)
  const hasFailed = signal(false)
  let isAsked = false

  const ask = async (): Promise<void> => {
    if (isAsked) return
    isAsked = true
    while (loaded.peek() === undefined) {
      try {
        loaded.value = { Part: await load() }
      } catch {
        // The gateway is away, or is of a version that has other files.
        hasFailed.value = true
        await sleep(retryAfter)
      }
    }
  }
  setTimeout(() => void ask(), fetchAfter)

  return (props) => {
    useEffect(() => void ask(), [])
    if (loaded.value !== undefined) return <loaded.value.Part {...props} />
    return hasFailed.value ? (
      <p class="problem" role="alert">
        The gateway does not send this part of the page yet. It is asked again; <a href={location.href}>load it anew</a>{" "}
        if the gateway has a newer version.
      </p>
    ) : (
      <Loading />
    )
  }
}
