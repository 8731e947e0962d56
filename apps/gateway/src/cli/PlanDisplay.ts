import type { PlanFrame, PlanView } from "@bowline/client"
import { Clock, Effect, Schedule } from "effect"
import { styleText } from "node:util"
import * as Progress from "./Progress.ts"
import * as StatusLine from "./StatusLine.ts"
import { isWatched } from "./TerminalConfig.ts"
import { harmless, oneLine } from "./TerminalText.ts"

const dim = (line: string): string => styleText("dim", line, { stream: process.stderr })

/**
 * Shows a plan, frame by frame. On a terminal: its text on stdout as it comes, and on stderr a line for what is worth one and a line of
 * status, which goes with the scope. Where stderr is none, only what somebody has to do, and the answer on stdout when it is whole. `answer` says
 * how an approval is given.
 */
export const make = Effect.fnUntraced(function* (
  answer: (frame: Extract<PlanFrame, { readonly event: "approval.requested" }>) => string,
  view: () => PlanView,
  printsText: boolean
) {
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

  const onFrame = (frame: PlanFrame, before: PlanView): void => {
    isCut = false
    if (isStreaming) stream(frame)
    else if (printsText && frame.event === "final") stdout.write(`${frame.data.text}\n`)
    const text = Progress.describe(frame, before)
    if (text !== undefined && (stderr.isTTY || frame.event === "approval.requested")) line.line(dim(oneLine(text)))
    if (frame.event === "approval.requested") line.line(answer(frame))
  }

  yield* Effect.addFinalizer(() => Effect.sync(line.endLine))
  if (isWatched(stderr)) yield* Effect.forkScoped(Effect.repeat(draw, Schedule.spaced("100 millis")))

  return {
    onFrame: (frame: PlanFrame, before: PlanView) => Effect.sync(() => onFrame(frame, before)),
    onCut: Effect.sync(() => {
      isCut = true
    }),
    /** The last line, for a terminal only. No status comes after it: the process may end at any moment. */
    leave: (text: string) =>
      Effect.sync(() => {
        isLeaving = true
        if (stderr.isTTY) line.line(text)
      })
  }
})
