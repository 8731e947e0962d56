import type { AcceptedEntry, PlanView } from "@bowline/client"
import type { BowlineError } from "@bowline/client/effect"
import { Effect, FiberSet, Option, Semaphore } from "effect"
import { oneLine } from "./TerminalText.ts"

export interface Said {
  readonly text: string
  readonly when: "boundary" | "now"
}

/** Says something to the plan that is watched. */
export type Say = (said: Said) => Effect.Effect<AcceptedEntry, BowlineError>

/** What a line says: with `!` in front at once. */
export const toSaid = (line: string): Said | undefined => {
  const [, now = "", text = ""] = /^\s*(!?)\s*(.*?)\s*$/s.exec(line) ?? []
  return text === "" ? undefined : { text, when: now === "" ? "boundary" : "now" }
}

interface Terminal {
  readonly read: (onLine: (line: string) => void) => () => void
  readonly line: (line: string) => void
}

/** How long the end of a plan waits for what is on its way to the gateway. */
const sentWithin = "5 seconds"

/** Says each line that is typed to the plan, one after the other, until the scope ends. */
export const make = Effect.fnUntraced(function* ({ line, read }: Terminal, say: Say) {
  const run = yield* FiberSet.make()
  const oneByOne = yield* Semaphore.make(1)
  const fork = yield* FiberSet.runtime(run)()
  const sent = new Set<string>()
  let moved: string | undefined

  const send = (said: Said) =>
    Effect.match(say(said), {
      onSuccess: (accepted) => {
        sent.add(accepted.entry_id)
        if (accepted.moved) moved = accepted.plan_id
      },
      onFailure: ({ code, message }) => line(oneLine(`${code}: ${message}`))
    })

  const close = read((typed) => {
    const said = toSaid(typed)
    if (said !== undefined) fork(Semaphore.withPermits(oneByOne, 1)(send(said)))
  })
  yield* Effect.addFinalizer(() => Effect.sync(close))

  return {
    stop: Effect.sync(close),
    /** The plan that asks what came too late for this one, which is over. */
    next: ({ outcome }: PlanView) =>
      FiberSet.awaitEmpty(run).pipe(
        Effect.timeoutOption(sentWithin),
        Effect.map(() => {
          const end = outcome !== null && "final" in outcome ? (outcome.final.moved ?? []) : []
          const id = moved ?? end.find(({ entry_id }) => sent.has(entry_id))?.plan_id
          moved = undefined
          return Option.fromUndefinedOr(id)
        })
      )
  }
})
