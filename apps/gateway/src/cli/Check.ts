import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { fromProcess } from "../config/GatewayConfig.ts"
import { unheeded } from "../config/Unheeded.ts"
import { Ended, exitCodes } from "./Ended.ts"

/** Says what is wrong with the configuration, or what holds. It starts nothing. */
export const check = Command.make("check", {}, () =>
  fromProcess({}).pipe(
    Effect.tap((config) => Console.log(JSON.stringify(config.effective, null, 2))),
    Effect.flatMap((config) => Effect.forEach(unheeded(config), (line) => Console.error(line), { discard: true })),
    Effect.catchTag(
      "InvalidConfiguration",
      ({ problems }) => new Ended({ code: exitCodes.configuration, lines: problems })
    )
  )
).pipe(Command.withDescription("Check the configuration, and show what holds and what does not"))
