import type { PlanFrame } from "@bowline/client"
import type { BowlineError } from "@bowline/client/effect"
import { Deferred, Effect, Fiber, Option, Queue } from "effect"
import { toDecide } from "./Advice.ts"
import { oneLine } from "./TerminalText.ts"

type ApprovalRequest = Extract<PlanFrame, { readonly event: "approval.requested" }>

export interface Decision {
  readonly decision: "approve" | "reject"
  readonly note?: string
}

/** Sends a decision to the gateway. */
export type Decide = (request: ApprovalRequest, decision: Decision) => Effect.Effect<unknown, BowlineError>

/** `y` or `n`, as a word or a letter, and behind it a note. */
export const toDecision = (answer: string): Decision | undefined => {
  const [, word = "", note = ""] = /^\s*(y|yes|n|no)(?:[\s,:;.]+(.*?))?\s*$/is.exec(answer) ?? []
  if (word === "") return undefined
  const decision = word.toLowerCase().startsWith("y") ? "approve" : "reject"
  return note === "" ? { decision } : { decision, note }
}

/** Whether somebody can be asked: both ends of a conversation are a terminal. */
export const canAsk = (): boolean => process.stdin.isTTY && !process.stdin.readableEnded && process.stderr.isTTY

interface Terminal {
  readonly ask: (text: string) => Effect.Effect<Option.Option<string>>
  readonly line: (line: string) => void
}

/**
 * Asks whoever sits before the terminal about the calls of a plan that wait, one after the other, until the scope ends.
 */
export const make = Effect.fnUntraced(function* ({ ask, line }: Terminal, decide: Decide) {
  const requests = yield* Queue.unbounded<ApprovalRequest>()
  /** By the id of the call: done when somebody has decided, here or elsewhere. */
  const decided = new Map<string, Deferred.Deferred<void>>()

  /** Whether that is done with. What cannot be stored now may be the next time. */
  const send = (request: ApprovalRequest, decision: Decision) =>
    Effect.matchEffect(decide(request, decision), {
      onSuccess: () => Effect.succeed(true),
      onFailure: ({ code, message, status }) =>
        Effect.sync(() => {
          line(oneLine(`${code}: ${message}`))
          return status === 404 || status === 409
        })
    })

  const askAbout = Effect.fnUntraced(function* (request: ApprovalRequest) {
    for (;;) {
      const answer = yield* ask(`  Approve ${oneLine(request.data.tool)}? y or n, and a note if you like: `)
      if (Option.isNone(answer)) return line(toDecide(request))
      const decision = toDecision(answer.value)
      if (decision !== undefined && (yield* send(request, decision))) return
    }
  })

  const asking = yield* Queue.take(requests).pipe(
    Effect.flatMap((request) => {
      const elsewhere = decided.get(request.data.task_id)
      return elsewhere === undefined ? Effect.void : Effect.raceFirst(Deferred.await(elsewhere), askAbout(request))
    }),
    Effect.forever,
    Effect.forkScoped
  )

  return {
    onFrame: (frame: PlanFrame): void => {
      if (frame.event === "approval.requested") {
        decided.set(frame.data.task_id, Deferred.makeUnsafe())
        Queue.offerUnsafe(requests, frame)
      }
      if (frame.event === "approval.resolved") {
        const open = decided.get(frame.data.task_id)
        if (open !== undefined) Deferred.doneUnsafe(open, Effect.void)
      }
    },
    /** Asks no more. */
    stop: Fiber.interrupt(asking)
  }
})
