import { initialView, type PlanFrame } from "@bowline/client"
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Ended, exitCodes } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine } from "./Output.ts"
import { describe } from "./Progress.ts"
import * as Signals from "./Signals.ts"
import { oneLine, toJson } from "./TerminalText.ts"
import * as Watch from "./Watch.ts"

const parameters = {
  plan: Argument.String("plan").pipe(Argument.withDescription("The id of the plan")),
  json: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON object for each frame"), Flag.withDefault(false))
}

/** A frame as one line: its number, its name, and what it says. */
const toLine = (frame: PlanFrame): string => {
  const { plan_id: _plan, session_id: _session, at: _at, ...payload } = frame.data
  return `${frame.id}\t${frame.event}\t${oneLine(describe(frame, initialView) ?? toJson(payload))}`
}

/** Shows a plan from its first frame to its end, on a terminal as `ask` does. Ctrl-C leaves the plan alone. */
const run = Effect.fnUntraced(function* ({ json, plan }: { readonly json: boolean; readonly plan: string }) {
  const gateway = yield* GatewayClient.make
  const seen = Watch.nothing()
  const lines = (toText: (frame: PlanFrame) => string) =>
    Effect.succeed({ onFrame: (frame: PlanFrame) => printLine(toText(frame)), onCut: Effect.void })
  const display = json
    ? yield* lines(toJson)
    : process.stdout.isTTY
      ? yield* Watch.display(gateway, seen, { asks: false, printsText: true })
      : yield* lines(toLine)

  yield* Effect.raceFirst(
    Watch.watch(gateway, gateway.client.attach(plan), seen, display),
    Effect.andThen(Signals.first, new Ended({ code: exitCodes.interrupted, lines: [] }))
  )
  yield* Watch.report(seen, false)
}, Effect.scoped)

/** Shows a plan that runs, or that is over. */
export const tail = Command.make("tail", parameters, run).pipe(
  Command.withDescription("Show a plan from its first event to its end")
)
