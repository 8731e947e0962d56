import { BowlineError, createBowline, type Frame, initialView, type Plan, reduce } from "@bowline/client"
import { computed, effect, signal, untracked } from "@preact/signals"
import { sleep } from "../gateway/GatewayClock.ts"
import { bowline, fetchOwn, signedOut, woken } from "../gateway/Gateway.ts"
import { isOver, settled } from "./Settled.ts"
import { takeSlot } from "./StreamSlot.ts"
import { isWatched, wantStream } from "./Visibility.ts"

/**
 * How the page hears of the plan.
 *
 *     reading ⇄ lost      the stream, and the wait for its next connection
 *     polling             other tabs have all streams of this browser
 *     paused              nobody has looked at the tab for 30 s, or it is logged out
 *     over                all events are here
 */
export type Hearing = "reading" | "lost" | "polling" | "paused" | "over"

/** How often a plan is asked for that is not streamed, in milliseconds. */
const pollEvery = 2_000

/** How long a stream may bring no event before the plan's record is asked for, in milliseconds: something may swallow what is sent. */
const doubtAfter = 10_000

/** How long the events of a plan that is over may take before its record is shown without them, in milliseconds. */
const replayWithin = 700

/** Whether asking again gives the same answer. A login that has expired is no refusal: the reading goes on behind it. */
const isRefusal = (error: unknown): error is BowlineError =>
  error instanceof BowlineError && (error.status === 400 || error.status === 403 || error.status === 404)

/** Follows a plan to its end, over every cut, until it is stopped. Leaving it does not touch the plan. */
export const followPlan = (planId: string) => {
  const startedAt = Date.now()
  const view = signal(initialView)
  const plan = signal<Plan | undefined>(undefined)
  const hearing = signal<Hearing>("reading")
  const lostAt = signal<number | undefined>(undefined)
  const heardAt = signal<number | undefined>(undefined)
  const problem = signal<BowlineError | undefined>(undefined)
  const stopped = new AbortController()

  /** Whether a stream is open. While it is, its own watch says when it is lost. */
  let isConnected = false

  const lose = () => {
    if (isConnected || hearing.peek() === "over") return
    lostAt.value ??= Date.now()
    hearing.value = "lost"
  }
  const hear = () => {
    lostAt.value = undefined
    if (hearing.value === "lost") hearing.value = "reading"
  }

  // A burst of frames is shown once, with the next picture that the browser draws.
  let pending: Array<Frame> = []
  let drawing = 0
  const draw = () => {
    drawing = 0
    const record = plan.peek()
    const isReplay = record !== undefined && isOver(record) && hearing.peek() !== "over"
    if (isReplay && Date.now() - startedAt < replayWithin) return later()
    const frames = pending
    pending = []
    view.value = frames.reduce(reduce, view.peek())
  }
  const later = () => {
    if (drawing === 0 && !stopped.signal.aborted) drawing = requestAnimationFrame(draw)
  }

  let asking: AbortController | undefined
  const check = async (): Promise<void> => {
    asking?.abort()
    const own = new AbortController()
    asking = own
    try {
      const answer = await bowline.plans.get(planId, { signal: own.signal })
      if (asking !== own || stopped.signal.aborted) return
      plan.value = answer
      problem.value = undefined
      if (hearing.value !== "lost") hear()
    } catch (error) {
      if (asking !== own || stopped.signal.aborted) return
      if (isRefusal(error)) problem.value = error
      else lose()
    }
  }

  const client = createBowline({
    baseUrl: location.origin,
    fetch: fetchOwn,
    giveUpAfterMs: Number.POSITIVE_INFINITY,
    onEvent: (event) => {
      isConnected = event.type === "connected"
      if (isConnected) hear()
      else {
        lose()
        void check()
      }
    }
  })

  /** Reads events until the plan is over or the reading is ended from outside. */
  const read = async (signal: AbortSignal): Promise<void> => {
    const after = pending.at(-1)?.id ?? view.peek().lastId
    const doubt = setInterval(() => {
      if (Date.now() - (heardAt.peek() ?? startedAt) > doubtAfter) void check()
    }, doubtAfter / 2)
    try {
      for await (const frame of client.attach(planId, { after, signal })) {
        heardAt.value = Date.now()
        pending.push(frame)
        later()
        if (frame.event === "done") hearing.value = "over"
      }
    } finally {
      clearInterval(doubt)
    }
    hearing.value = "over"
    await check()
  }

  const follow = async (signal: AbortSignal): Promise<void> => {
    await check()
    while (!signal.aborted && hearing.value !== "over" && problem.value === undefined) {
      const release = await takeSlot()
      try {
        const isRecord = plan.value !== undefined && isOver(plan.value)
        if (release !== undefined || isRecord) {
          hearing.value = "reading"
          await read(signal)
        } else {
          hearing.value = "polling"
          wantStream()
          await sleep(pollEvery, signal)
          if (!signal.aborted) await check()
        }
      } catch (error) {
        if (signal.aborted) return
        if (isRefusal(error)) problem.value = error
        lose()
      } finally {
        if (!signal.aborted) isConnected = false
        release?.()
      }
      if (hearing.value === "lost") await sleep(pollEvery, signal)
    }
  }

  const unwatch = effect(() => {
    if (!isWatched.value || signedOut.value) {
      if (hearing.peek() !== "over") hearing.value = "paused"
      return undefined
    }
    const own = new AbortController()
    untracked(() => void follow(own.signal))
    return () => {
      own.abort()
      isConnected = false
    }
  })

  let wakes = woken.peek()
  const unwake = effect(() => {
    if (woken.value === wakes) return
    wakes = woken.value
    untracked(() => void check())
  })

  return {
    /** What is known of the plan. Its record settles what its stream has left open. */
    view: computed(() => settled(view.value, plan.value)),
    plan,
    hearing,
    /** Since when nothing can be heard, and when the last event came, by this machine's clock. */
    lostAt,
    heardAt,
    /** Why the gateway does not show the plan. */
    problem,
    check,
    stop: () => {
      stopped.abort()
      unwatch()
      unwake()
      asking?.abort()
      cancelAnimationFrame(drawing)
    }
  }
}
export type FollowedPlan = ReturnType<typeof followPlan>
