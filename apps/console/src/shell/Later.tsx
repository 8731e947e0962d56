import { signal } from "@preact/signals"
import type { ComponentType } from "preact"
import { useEffect } from "preact/hooks"
import { sleep } from "../gateway/GatewayClock.ts"
import { Loading } from "./Notice.tsx"

/** How long the first page has the network for itself, in milliseconds. */
const fetchAfter = 1_000

/** How often a gateway that did not send code is asked whether it is back, and how old a page is at least that loads itself anew, in milliseconds. */
const askEvery = 2_000
const reloadAfter = 5_000

/** Loads the page anew as soon as the gateway answers. A browser does not fetch code again that did not come, until then. */
const heal = async (signal: AbortSignal): Promise<void> => {
  await sleep(reloadAfter - performance.now(), signal)
  while (!signal.aborted) {
    const answer = await fetch("/health", { signal }).catch(() => undefined)
    if (answer?.ok === true && !signal.aborted) return location.reload()
    await sleep(askEvery, signal)
  }
}

const Missing = () => {
  useEffect(() => {
    const leaving = new AbortController()
    void heal(leaving.signal)
    return () => leaving.abort()
  }, [])
  return (
    <p class="problem" role="alert">
      The gateway has not sent this part of the page. It is loaded anew when the gateway answers.{" "}
      <button type="button" class="quiet" onClick={() => location.reload()}>
        Load it now
      </button>
    </p>
  )
}

/**
 * A page, or a part of one, whose code comes when it is first shown, or when the first page has had its time: whoever looks at it later does
 * not wait, also while the gateway is away.
 */
export const later = <Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> => {
  const loaded = signal<{ readonly Part: ComponentType<Props> } | "missing" | undefined>(undefined)
  let isAsked = false

  const ask = async (): Promise<void> => {
    if (isAsked) return
    isAsked = true
    try {
      loaded.value = { Part: await load() }
    } catch {
      // The gateway is away, or is of a version that has other files.
      loaded.value = "missing"
    }
  }
  setTimeout(() => void ask(), fetchAfter)

  return (props) => {
    useEffect(() => void ask(), [])
    if (loaded.value === undefined) return <Loading />
    return loaded.value === "missing" ? <Missing /> : <loaded.value.Part {...props} />
  }
}
