import { useSignal } from "@preact/signals"

/** A button that copies a text. Browsers allow it on https and on this machine only. */
export const CopyButton = ({
  label,
  text,
  what
}: {
  readonly label: string
  /** What is copied; made when somebody asks for it where it is long. */
  readonly text: string | (() => string)
  readonly what?: string
}) => {
  const isCopied = useSignal(false)
  if (!("clipboard" in navigator)) return null
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text())
    isCopied.value = true
    setTimeout(() => {
      isCopied.value = false
    }, 2_000)
  }
  return (
    <button type="button" class="quiet" aria-label={what} onClick={() => void copy()}>
      {isCopied.value ? "Copied" : label}
    </button>
  )
}
