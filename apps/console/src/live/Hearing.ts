import { signal } from "@preact/signals"

/**
 * How the page hears of a plan.
 *
 *     reading ⇄ lost      the stream, and the wait for its next connection
 *     polling             other tabs have all streams of this browser
 *     paused              nobody has looked at the tab for 30 s, or it is logged out
 *     over                all events are here
 */
export type Hearing = "reading" | "lost" | "polling" | "paused" | "over"

/** Keeps how the page hears of a plan, and since when it does not. */
export const makeHearing = () => {
  const hearing = signal<Hearing>("reading")
  const lostAt = signal<number | undefined>(undefined)

  /** Whether a stream is open. While it is, its own watch says when it is lost. */
  let isConnected = false

  const lose = () => {
    if (isConnected || hearing.peek() === "over") return
    lostAt.value ??= Date.now()
    hearing.value = "lost"
  }

  const hear = () => {
    lostAt.value = undefined
    if (hearing.peek() === "lost") hearing.value = "reading"
  }

  return {
    hearing,
    lostAt,
    /** Nothing answers. */
    lose,
    /** Something that is not the stream has answered. A stream that is lost stays lost. */
    answer: () => {
      if (hearing.peek() !== "lost") hear()
    },
    /** A stream has opened. */
    connect: () => {
      isConnected = true
      hear()
    },
    /** The stream is no longer open, which is no loss where the page has closed it. */
    close: () => {
      isConnected = false
    },
    pause: () => {
      if (hearing.peek() !== "over") hearing.value = "paused"
    }
  }
}
