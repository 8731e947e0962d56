import type { ComponentChildren } from "preact"
import { inWords, signedOut } from "../gateway/Gateway.ts"
import { Sign } from "./Sign.tsx"

/** What stands where there is nothing yet, and what to do next. */
export const Empty = ({ children, title }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="empty">
    <h2>{title}</h2>
    {children}
  </div>
)

/** What went wrong, in words. A login that has expired has its own form. */
export const Problem = ({ error }: { readonly error: unknown }) =>
  error === undefined || signedOut.value ? null : (
    <p class="problem" role="alert">
      <Sign of="bad" />
      {inWords(error)}
    </p>
  )

/** Stands where an answer is to come. */
export const Loading = () => (
  <p class="loading" role="status">
    Loading…
  </p>
)
