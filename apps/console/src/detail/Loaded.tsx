import { useSignal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { Loading, Problem } from "../shell/Notice.tsx"

/** Something that is asked of the gateway when somebody opens it, and kept. */
export const Loaded = <A,>({
  children,
  load,
  title
}: {
  readonly title: string
  readonly load: (signal: AbortSignal) => Promise<A>
  readonly children: (loaded: A) => ComponentChildren
}) => {
  const found = useSignal<{ readonly value: A } | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const isOpen = useSignal(false)
  const leaving = useRef(new AbortController())
  useEffect(() => () => leaving.current.abort(), [])
  const open = async () => {
    if (found.value !== undefined) return
    problem.value = undefined
    try {
      found.value = { value: await load(leaving.current.signal) }
    } catch (error) {
      if (!leaving.current.signal.aborted) problem.value = error
    }
  }
  return (
    <details
      class="loaded"
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open
        if (isOpen.value) void open()
      }}
    >
      <summary>{title}</summary>
      {isOpen.value ? (
        <>
          <Problem error={problem.value} />
          {found.value !== undefined ? children(found.value.value) : problem.value === undefined ? <Loading /> : null}
        </>
      ) : null}
    </details>
  )
}
