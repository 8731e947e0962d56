import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer } from "effect"
import { Command } from "effect/cli"
import { ask } from "./Ask.ts"
import * as Process from "./Process.ts"
import { serve } from "./Serve.ts"

const bowline = Command.make("bowline").pipe(
  Command.withDescription("An agent gateway that never gets stuck"),
  Command.withSubcommands([serve, ask])
)

const layer = Layer.effectDiscard(Command.run(bowline, { version: "0.1.0" })).pipe(Layer.provide(NodeServices.layer))

/** Runs the command that the arguments of this process name. */
export const run = (): void => Process.run(Effect.scoped(Layer.build(layer)))
