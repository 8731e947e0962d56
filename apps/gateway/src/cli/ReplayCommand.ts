import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { existsSync } from "node:fs"
import { Ended, exitCodes, failed, misused, reasonOf } from "./Ended.ts"
import { exported } from "./ExportCommand.ts"
import { readFile } from "./LocalFiles.ts"
import { printLine, tell } from "./Output.ts"
import { toJson } from "./TerminalText.ts"

const parameters = {
  plan: Argument.String("plan").pipe(
    Argument.withDescription("A file that `bowline export` has written, or the id of a plan, which is exported first")
  ),
  until: Flag.Int("until").pipe(
    Flag.withDescription("Compares no further than this step: what differs behind it does not count"),
    Flag.optional
  )
}

// It stands on fakes and on a scheduler of the test kit, which no gateway that serves needs.
const Replay = Effect.tryPromise({
  try: () => import("@bowline/testing/replay/Replay"),
  catch: () => failed("A replay needs the test kit. Install @bowline/testing in the version of this gateway beside it")
})

/** Runs plans again on their records, in this process and without a network. Fails at the first one that is another one. */
export const replay = Command.make(
  "replay",
  parameters,
  Effect.fnUntraced(function* ({ plan, until }) {
    if (Option.exists(until, (step) => step < 1)) return yield* misused("Expected 1 or more for --until")
    const bytes: Uint8Array = existsSync(plan) ? yield* readFile(plan) : yield* exported(plan)
    const { read, replay } = yield* Replay
    const recordings = yield* Effect.try({
      try: () => read(bytes),
      catch: (cause) => failed(`${plan} is no record of a plan: ${reasonOf(cause)}`)
    })
    const last = Option.getOrElse(until, () => Infinity)
    let isOther = false
    for (const recording of recordings) {
      const { plan_id } = recording.plan
      // A plan with bad lines that `read` has not found must not end the replay of the other plans.
      const replayed = yield* Effect.tryPromise({ try: () => replay(recording), catch: reasonOf }).pipe(
        Effect.catch((why) => Effect.succeed({ _tag: "Impossible" as const, why }))
      )
      if (replayed._tag === "Impossible") {
        yield* tell(`${plan_id}: cannot be run again: ${replayed.why}`)
        isOther = true
      } else if (replayed._tag === "Same" || replayed.step > last) yield* printLine(`${plan_id}: same`)
      else {
        const { came, recorded, step, what } = replayed
        yield* printLine(`${plan_id}: step ${step}: ${what} differs`)
        yield* printLine(`  recorded: ${toJson(recorded)}`)
        yield* printLine(`  came:     ${toJson(came)}`)
        isOther = true
      }
    }
    if (isOther) return yield* new Ended({ code: exitCodes.failed, lines: [] })
  })
).pipe(
  Command.withDescription("Run a plan again on its record, offline, and name the first difference"),
  Command.provide(FetchHttpClient.layer)
)
