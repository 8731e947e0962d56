/** How something is doing. Each tone has a sign of its own, beside its colour and a word. */
export type Tone = "running" | "waiting" | "good" | "bad" | "warn" | "plain"

// Drawn, since not every machine has a font with such characters.
const paths: Readonly<Record<Tone | "open" | "closed" | "up", string>> = {
  running: "M5 3.5v9l7-4.5z",
  waiting: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 5v3.2l2.2 1.6",
  good: "M3 8.5l3.2 3.2L13 4.8",
  bad: "M4 4l8 8M12 4l-8 8",
  warn: "M8 2.5L14 13H2zM8 6.5v3M8 11.2v.3",
  plain: "M5 8h6",
  open: "M4 6l4 4 4-4",
  closed: "M6 4l4 4-4 4",
  up: "M4 10l4-4 4 4"
}

/** A small drawing in the colour of its text. The word beside it says the same. */
export const Sign = ({ of }: { readonly of: keyof typeof paths }) => (
  <svg class={`sign ${of}`} viewBox="0 0 16 16" aria-hidden="true">
    <path d={paths[of]} />
  </svg>
)
