import { createBowline } from "@bowline/client"
import { computed, effect, signal, untracked } from "@preact/signals"
import { sleep } from "../gateway/GatewayClock.ts"
import { fetchOwn, signedOut, woken } from "../gateway/Gateway.ts"
import { makeDrawing } from "./Drawing.ts"
import { makeHearing } from "./Hearing.ts"
import { makePlanRecord } from "./PlanRecord.ts"
import { isOver, settled } from "./Settled.ts"
import { takeSlot } from "./StreamSlot.ts"
import { isWatched, wantStream } from "./Visibility.ts"

/** How often a plan is asked for that is not streamed, in milliseconds. */
const pollEvery = 2_000

/** How long a stream may bring no event before the plan's record is asked for, in milliseconds: something may swallow what is sent. */
const doubtAfter = 10_000

/** How long the events of a plan that is over may take before its record is shown without them, in milliseconds. */
const replayWithin = 700

/** Follows a plan to its end, over every cut, until it is stopped. Leaving it does not touch the plan. */
export const followPlan = (planId: string) => {
  const startedAt = Date.now()
  const heardAt = signal<number | undefined>(undefined)
  const { close, connect, hearing, lose, lostAt, pause, answer } = makeHearing()
  const record = makePlanRecord(planId, { answer, lose })
  const { check, plan, problem } = record

  const isPlanOver = () => {
    const known = plan.peek()
    return known !== undefined && isOver(known)
  }

  // The events of a plan that is over are shown all at once, if they come soon.
  const drawing = makeDrawing(() => isPlanOver() && hearing.peek() !== "over" && Date.now() - startedAt < replayWithin)

  const client = createBowline({
    baseUrl: location.origin,
    fetch: fetchOwn,
    giveUpAfterMs: Number.POSITIVE_INFINITY,
    onEvent: (event) => {
      if (event.type === "connected") return connect()
      close()
      lose()
      void check()
    }
  })

  /** Reads events until the plan is over or the reading is ended from outside. */
  const read = async (signal: AbortSignal): Promise<void> => {
    const doubt = setInterval(() => {
      if (Date.now() - (heardAt.peek() ?? startedAt) > doubtAfter) void check()
    }, doubtAfter / 2)
    try {
      for await (const frame of client.attach(planId, { after: drawing.lastId(), signal })) {
        heardAt.value = Date.now()
        drawing.add(frame)
        if (frame.event === "done") hearing.value = "over"
      }
    } finally {
      clearInterval(doubt)
    }
    hearing.value = "over"
    await check()
  }

  /** Reads the stream where there is a place for it, or where it is over soon. Else asks how far the plan is. */
  const readOrPoll = async (signal: AbortSignal): Promise<void> => {
    const release = await takeSlot()
    try {
      if (release !== undefined || isPlanOver()) {
        hearing.value = "reading"
        return await read(signal)
      }
      hearing.value = "polling"
      wantStream()
      await sleep(pollEvery, signal)
      if (!signal.aborted) await check()
    } finally {
      if (!signal.aborted) close()
      release?.()
    }
  }

  const follow = async (signal: AbortSignal): Promise<void> => {
    await check()
    while (!signal.aborted && hearing.value !== "over" && problem.value === undefined) {
      try {
        await readOrPoll(signal)
      } catch (error) {
        if (signal.aborted) return
        record.fail(error)
        lose()
      }
      if (hearing.value === "lost") await sleep(pollEvery, signal)
    }
  }

  const unwatch = effect(() => {
    if (!isWatched.value || signedOut.value) {
      pause()
      return undefined
    }
    const own = new AbortController()
    untracked(() => void follow(own.signal))
    return () => {
      own.abort()
      close()
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
    view: computed(() => settled(drawing.view.value, plan.value)),
    plan,
    hearing,
    /** Since when nothing can be heard, and when the last event came, by this machine's clock. */
    lostAt,
    heardAt,
    /** Why the gateway does not show the plan. */
    problem,
    check,
    stop: () => {
      unwatch()
      unwake()
      record.stop()
      drawing.stop()
    }
  }
}
export type FollowedPlan = ReturnType<typeof followPlan>
