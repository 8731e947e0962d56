import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { fromProcess } from "../config/GatewayConfig.ts"
import { Ended, exitCodes } from "./Ended.ts"

/** Says what is wrong with the configuration, or what holds. It starts nothing. */
export const check = Command.make("check", {}, () =>
  fromProcess({}).pipe(
    Effect.flatMap(({ effective }) => Console.log(JSON.stringify(effective, null, 2))),
    Effect.catchTag(
      "InvalidConfiguration",
      ({ problems }) => new Ended({ code: exitCodes.configuration, lines: problems })
    )
  )
).pipe(Command.withDescription("Check the configuration, and show what holds"))
