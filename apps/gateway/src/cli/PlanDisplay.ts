import type { PlanFrame, PlanView } from "@bowline/client"
import { Clock, Effect, Schedule } from "effect"
import { styleText } from "node:util"
import * as Advice from "./Advice.ts"
import * as Approvals from "./TypedDecisions.ts"
import * as Progress from "./Progress.ts"
import * as Steering from "./TypedTexts.ts"
import * as StatusLine from "./StatusLine.ts"
import { columnsOf, isWatched } from "./TerminalConfig.ts"
import { harmless, oneLine, widthOf } from "./TerminalText.ts"

const dim = (line: string): string => styleText("dim", line, { stream: process.stderr })

/** What a terminal of so many columns shows of a plan's name: an id that is cut in two lines cannot be selected. */
const breakName = (text: string, columns: number): ReadonlyArray<string> =>
  widthOf(text) <= columns ? [text] : text.split(/ (?=in session )/)

interface Options {
  readonly view: () => PlanView
  /** Whether the answer goes to stdout. */
  readonly printsText: boolean
  /** Sends a decision. Without it nobody is asked for one. */
  readonly decide?: Approvals.Decide | undefined
  /** Says a line that is typed to the plan. */
  readonly say?: Steering.Say | undefined
}

/**
 * Shows a plan, frame by frame. On a terminal: its text on stdout as it comes, and on stderr a line for what is worth one and a line of
 * status, which goes with the scope. Where stderr is none, only warnings and what somebody has to do, and the answer on stdout when it is whole.
 */
export const make = Effect.fnUntraced(function* ({ decide, printsText, say, view }: Options) {
  const { stderr, stdout } = process
  const started = yield* Clock.currentTimeMillis
  /** The stream is cut, and is not resumed yet. */
  let isCut = false
  const line = StatusLine.make()
  /** The text of the step that was not retracted, by attempt. */
  const shown = new Map<number, string>()
  /** Whether what stays of it has to be shown again. */
  let isRetracted = false
  const isStreaming = printsText && stdout.isTTY

  let isLeaving = false

  const draw = Effect.map(Clock.currentTimeMillis, (now) => {
    if (!isLeaving) line.show(Progress.status(view(), now - started, isCut))
  })

  const stream = (frame: PlanFrame): void => {
    switch (frame.event) {
      case "text.delta": {
        const { attempt, delta } = frame.data
        if (isRetracted) line.text(harmless([...shown.values()].join("")))
        isRetracted = false
        shown.set(attempt, (shown.get(attempt) ?? "") + delta)
        line.text(harmless(delta))
        return
      }
      case "text.retract":
        if (!shown.delete(frame.data.attempt)) return
        isRetracted = true
        line.line(dim("↺ The text above is retracted: the answer begins again"))
        return
      case "final":
        line.endLine()
        if (isRetracted || frame.data.text !== [...shown.values()].join("")) line.text(harmless(frame.data.text))
        line.endLine()
        return
      case "usage":
        // A continuation goes on in the middle of the line.
        return
      default:
        line.endLine()
        if (frame.event !== "step") return
        shown.clear()
        isRetracted = false
    }
  }

  const approvals = decide !== undefined && Approvals.canAsk() ? yield* Approvals.make(line, decide) : undefined

  const steering = say !== undefined && Approvals.canAsk() ? yield* Steering.make(line, say) : undefined

  const onFrame = (frame: PlanFrame, before: PlanView): void => {
    isCut = false
    if (isStreaming) stream(frame)
    else if (printsText && frame.event === "final") stdout.write(`${frame.data.text}\n`)
    const text = Progress.describe(frame, before)
    const advice = Advice.describe(frame, before)
    const concerns = advice !== undefined || frame.event === "approval.requested" || frame.event === "notice"
    if (text !== undefined && (stderr.isTTY || concerns)) {
      for (const one of breakName(oneLine(text), columnsOf(stderr))) line.line(dim(one))
    }
    if (advice !== undefined) line.line(harmless(advice))
    if (approvals !== undefined) approvals.onFrame(frame)
    else if (frame.event === "approval.requested") line.line(Advice.toDecide(frame))
  }

  yield* Effect.addFinalizer(() => Effect.sync(line.endLine))
  if (isWatched(stderr)) yield* Effect.forkScoped(Effect.repeat(draw, Schedule.spaced("100 millis")))

  return {
    onFrame: (frame: PlanFrame, before: PlanView) => Effect.sync(() => onFrame(frame, before)),
    onCut: Effect.sync(() => {
      isCut = true
    }),
    /** The plan that asks what was said too late. */
    next: Effect.suspend(() => steering?.next(view()) ?? Effect.succeedNone),
    /** The last line, for a terminal only. No status comes after it: the process may end at any moment. */
    leave: (text: string) =>
      Effect.andThen(
        Effect.andThen(steering?.stop ?? Effect.void, approvals?.stop ?? Effect.void),
        Effect.sync(() => {
          isLeaving = true
          if (stderr.isTTY) line.line(text)
        })
      )
  }
})
