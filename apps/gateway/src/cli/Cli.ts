import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, Layer } from "effect"
import { CliOutput, Command } from "effect/cli"
import { ask } from "./Ask.ts"
import { check } from "./Check.ts"
import { credentials } from "./Credentials.ts"
import * as Process from "./Process.ts"
import { serve } from "./Serve.ts"

const bowline = Command.make("bowline").pipe(
  Command.withDescription("An agent gateway that never gets stuck"),
  Command.withSubcommands([serve, ask, check, credentials])
)

/** Reports a wrong command line as one line on stderr, like every other error. */
const usage = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const problems = event.errors.map(({ message }) => message.trim().replaceAll(/\s+/g, " ")).join("; ")
    return Console.error(`${problems} (see ${event.commandPath.join(" ")} --help)`)
  }
})

const layer = Layer.effectDiscard(Command.run(bowline, { version: "0.1.0" })).pipe(
  Layer.provide([NodeServices.layer, usage])
)

/** Runs the command that the arguments of this process name. */
export const run = (): void => Process.run(Effect.scoped(Layer.build(layer)))
