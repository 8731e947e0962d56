import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { fromProcess, unheeded } from "../config/GatewayConfig.ts"
import { misconfigured } from "./Ended.ts"

/** Lists what is wrong with the configuration, or shows what holds. It starts nothing. */
export const check = Command.make("check", {}, () =>
  fromProcess({}).pipe(
    Effect.tap((config) => Console.log(JSON.stringify(config.effective, null, 2))),
    Effect.flatMap((config) => Effect.forEach(unheeded(config), (line) => Console.error(line), { discard: true })),
    Effect.catchTag("InvalidConfiguration", ({ problems }) => misconfigured(problems))
  )
).pipe(Command.withDescription("Check the configuration, and show what holds and what does not"))
