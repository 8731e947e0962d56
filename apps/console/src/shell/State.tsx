import { Sign, type Tone } from "./Sign.tsx"

const tones: Readonly<Record<string, Tone>> = {
  queued: "waiting",
  waiting: "waiting",
  running: "running",
  completed: "good",
  failed: "bad",
  aborted: "warn",
  ok: "good",
  closed: "good",
  connected: "good",
  cooldown: "waiting",
  "half-open": "waiting",
  out: "bad",
  open: "bad",
  "timed-out": "bad",
  invalid: "bad",
  rejected: "warn",
  canceled: "warn",
  interrupted: "warn",
  error: "bad",
  started: "good",
  skipped: "plain",
  missed: "warn",
  refused: "bad",
  paused: "waiting",
  pending: "waiting",
  delivered: "good",
  dropped: "bad"
}

/** A state as a sign and a word: nothing is said by colour alone. */
export const State = ({ state, words = state }: { readonly state: string; readonly words?: string }) => {
  const tone = tones[state] ?? "plain"
  return (
    <span class={`state tone-${tone}`}>
      <Sign of={tone} />
      {words}
    </span>
  )
}
