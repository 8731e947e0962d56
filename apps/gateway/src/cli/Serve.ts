import { Effect, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { setFlagsFromString } from "node:v8"
import { fromProcess } from "../config/GatewayConfig.ts"
import { Ended, exitCodes, failed, reasonOf } from "./Ended.ts"
import * as Signals from "./Signals.ts"

const flags = {
  host: Flag.String("host").pipe(Flag.withDescription("Address to listen on, instead of BOWLINE_HOST"), Flag.optional),
  port: Flag.String("port").pipe(Flag.withDescription("Port to listen on, instead of BOWLINE_PORT"), Flag.optional)
}

const variable = (name: string, flag: Option.Option<string>) =>
  Option.match(flag, { onNone: () => ({}), onSome: (text) => ({ [name]: text }) })

/** Serves until it is told to stop, and then ends well. */
export const serve = Command.make("serve", flags, ({ host, port }) =>
  Effect.gen(function* () {
    const config = yield* fromProcess({ ...variable("BOWLINE_HOST", host), ...variable("BOWLINE_PORT", port) })
    // A caller's schema may bring a regular expression that would hold up everybody: V8 then goes on with its linear engine.
    setFlagsFromString("--enable-experimental-regexp-engine-on-excessive-backtracks")
    const gateway = yield* Effect.promise(() => import("../Gateway.ts"))
    yield* Effect.raceFirst(Layer.launch(gateway.layer(config)), Signals.first)
  }).pipe(
    Effect.catchTags({
      InvalidConfiguration: ({ problems }) => new Ended({ code: exitCodes.configuration, lines: problems }),
      ServeError: ({ cause }) => failed(`Cannot listen: ${reasonOf(cause)}`),
      DataDirInUse: ({ message }) => new Ended({ code: exitCodes.configuration, lines: [message] }),
      StorageError: ({ message, reason }) => failed(`${message}: ${reasonOf(reason.cause)}`)
    })
  )
).pipe(Command.withDescription("Serve the gateway"))
