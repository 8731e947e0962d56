import { Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import { Ended, exitCodes } from "./Ended.ts"
import * as Signals from "./Signals.ts"

const interrupted = Effect.andThen(Signals.first, new Ended({ code: exitCodes.interrupted, lines: [] }))

// The other commands start faster without them.
const Examination = Effect.promise(() => import("./doctor/Examination.ts"))
const Outbound = Effect.promise(() => import("../egress/Outbound.ts"))

/** Looks at everything that the gateway needs, all at once, and says what to do. It changes nothing. */
export const doctor = Command.make(
  "doctor",
  { json: Flag.Boolean("json").pipe(Flag.withDescription("Print the findings as JSON"), Flag.withDefault(false)) },
  ({ json }) =>
    Effect.raceFirst(
      Effect.flatMap(Examination, ({ examine }) => examine(json)),
      interrupted
    )
).pipe(
  Command.withDescription("Check the configuration, the database, the providers, the network and the machine"),
  Command.provide(Layer.unwrap(Effect.map(Outbound, ({ layer }) => layer)))
)
