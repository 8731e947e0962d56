import * as NodeServices from "@effect/platform-node/NodeServices"
import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import { Console, Effect, Layer } from "effect"
import { CliOutput, Command } from "effect/cli"
import { fromProcess, unheeded } from "../config/GatewayConfig.ts"
import { ask } from "./Ask.ts"
import { credentials } from "./Credentials.ts"
import { doctor } from "./Doctor.ts"
import { misconfigured } from "./Ended.ts"
import * as Process from "./Process.ts"
import { serve } from "./Serve.ts"

/** Lists what is wrong with the configuration, or shows what holds. It starts nothing. */
const check = Command.make("check", {}, () =>
  fromProcess({}).pipe(
    Effect.tap((config) => Console.log(JSON.stringify(config.effective, null, 2))),
    Effect.flatMap((config) =>
      Effect.map(RecipeFolder.faultsOf(config.texts.recipes), (faults) => [
        ...unheeded(config),
        ...faults.map(({ path, reason }) => `A recipe that cannot be used: ${path}: ${reason}`)
      ])
    ),
    Effect.flatMap(Effect.forEach((line) => Console.error(line), { discard: true })),
    Effect.catchTag("InvalidConfiguration", ({ problems }) => misconfigured(problems))
  )
).pipe(Command.withDescription("Check the configuration, and show what holds and what does not"))

const bowline = Command.make("bowline").pipe(
  Command.withDescription("An agent gateway that never gets stuck"),
  Command.withSubcommands([serve, ask, check, doctor, credentials])
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
