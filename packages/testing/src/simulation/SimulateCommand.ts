import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Data, Effect, Layer, Option, Runtime } from "effect"
import { CliConfig, CliOutput, Command, Flag, GlobalFlag } from "effect/cli"
import manifest from "../../package.json" with { type: "json" }
import { type Options, print, simulate } from "./Simulation.ts"
import { tellFailure } from "./Story.ts"

/** 1: a rule is broken. 64 is `EX_USAGE` of `sysexits.h`. */
const exitCodes = { broken: 1, usage: 64 } as const

/** The command has said what is wrong. */
class Ended extends Data.TaggedError("Ended")<{ readonly code: number }> {
  override readonly [Runtime.errorExitCode] = this.code
  override readonly [Runtime.errorReported] = false
}

const say = (lines: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.sync(() => {
    for (const line of lines) process.stdout.write(`${line}\n`)
  })

const tell = (line: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${line}\n`)
  })

const flags = {
  seed: Flag.Int("seed").pipe(Flag.withDescription("The number of the run: the same number, the same run")),
  store: Flag.Literals("store", ["memory", "pglite"]).pipe(
    Flag.withDescription("The stores in memory, or those of SQL on PGlite, which are slower"),
    Flag.withDefault("memory")
  ),
  until: Flag.Int("until").pipe(
    Flag.filter(
      (step) => step > 0,
      () => "Expected a step of 1 or more"
    ),
    Flag.withDescription("Stop after this step, the number of a task of the run. Nothing is checked then"),
    Flag.optional
  ),
  trace: Flag.Boolean("trace").pipe(Flag.withDescription("Print what happens, line by line"), Flag.withDefault(false))
}

const commandOf = (given: Omit<Options, "seed" | "steps">) =>
  Command.make(
    "bowline-simulate",
    flags,
    Effect.fnUntraced(function* ({ seed, store, trace, until }) {
      const steps = Option.getOrUndefined(until)
      const options = { ...given, seed, store, ...(steps !== undefined && { steps }) }
      const run = yield* Effect.promise(() => simulate(options))
      if (trace) yield* say(run.trace.map(print))
      const isWhole = steps === undefined || run.steps < steps
      const time = `${(run.virtualMs / 1_000).toFixed(3)} s of virtual time, ${run.steps} steps`
      if (!isWhole || run.violations.length === 0) {
        return yield* say([`Seed ${seed}: ${time}${isWhole ? ", and every rule holds" : ""}`])
      }
      yield* tell(`Seed ${seed}: ${time}, and ${run.violations.length} violations; looking for a smaller scenario …`)
      yield* say(yield* Effect.promise(() => tellFailure(run, options)))
      return yield* new Ended({ code: exitCodes.broken })
    })
  ).pipe(Command.withDescription("Run the whole gateway in virtual time, with the faults that a seed draws"))

/** Reports a wrong command line as one line on stderr. */
const usage = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const problems = event.errors.map(({ message }) => message.trim().replaceAll(/\s+/g, " ")).join("; ")
    return tell(`${problems} (see bowline-simulate --help)`)
  }
})

const { Help, Version } = GlobalFlag

const misused = ({ errors }: { readonly errors: ReadonlyArray<unknown> }) =>
  errors.length === 0 ? Effect.void : new Ended({ code: exitCodes.usage })

/** The command line of this process, on runs with what is given. */
export const main = (given: Omit<Options, "seed" | "steps"> = {}): void => {
  const run = Command.run(commandOf(given), { version: manifest.version })
  const layer = Layer.effectDiscard(Effect.catchTag(run, "ShowHelp", misused)).pipe(
    Layer.provide([NodeServices.layer, usage, CliConfig.layer({ builtIns: [Help, Version] })])
  )
  NodeRuntime.runMain(Effect.scoped(Layer.build(layer)), { disableErrorReporting: true })
}
