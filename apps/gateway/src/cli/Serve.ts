import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Layer, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { resolve } from "node:path"
import { setFlagsFromString } from "node:v8"
import { type Database, fromProcess } from "../config/GatewayConfig.ts"
import type { Environment } from "../config/Sources.ts"
import { Ended, exitCodes, failed, reasonOf } from "./Ended.ts"
import * as Signals from "./Signals.ts"

const flags = {
  host: Flag.String("host").pipe(Flag.withDescription("Address to listen on, instead of BOWLINE_HOST"), Flag.optional),
  port: Flag.String("port").pipe(Flag.withDescription("Port to listen on, instead of BOWLINE_PORT"), Flag.optional)
}

const variable = (name: string, flag: Option.Option<string>) =>
  Option.match(flag, { onNone: () => ({}), onSome: (text) => ({ [name]: text }) })

/** In the words of the one who has typed flags. */
const inFlags = (problem: string, flags: Environment): string =>
  Object.keys(flags).reduce(
    (text, name) => text.replaceAll(name, `--${name.replace("BOWLINE_", "").toLowerCase()}`),
    problem
  )

const cannotStore = (database: Database, { message, reason }: StorageError): Ended => {
  const cause = reasonOf(reason.cause)
  return failed(
    database._tag === "Embedded"
      ? `BOWLINE_DATA_DIR: The embedded database in ${resolve(database.dataDir)} cannot be used: ${cause}. ` +
          "Expected a folder that this process may write to, on a disk with space; else use a Postgres server"
      : `DATABASE_URL: ${message}: ${cause}. Expected a Postgres server that answers, and a user who may create tables`
  )
}

/** Serves until it is told to stop, and then ends well. */
export const serve = Command.make("serve", flags, ({ host, port }) => {
  const given = { ...variable("BOWLINE_HOST", host), ...variable("BOWLINE_PORT", port) }
  const misconfigured = (problems: ReadonlyArray<string>) =>
    new Ended({ code: exitCodes.configuration, lines: problems.map((problem) => inFlags(problem, given)) })
  return Effect.gen(function* () {
    const config = yield* fromProcess(given)
    // A caller's schema may bring a regular expression that would hold up everybody: V8 then goes on with its linear engine.
    setFlagsFromString("--enable-experimental-regexp-engine-on-excessive-backtracks")
    const gateway = yield* Effect.promise(() => import("../Gateway.ts"))
    yield* Effect.raceFirst(Layer.launch(gateway.layer(config)), Signals.first).pipe(
      Effect.catchTags({
        ServeError: ({ cause }) =>
          failed(inFlags(`BOWLINE_HOST, BOWLINE_PORT: Cannot listen: ${reasonOf(cause)}`, given)),
        StorageError: (error) => cannotStore(config.database, error)
      })
    )
  }).pipe(
    Effect.catchTags({
      InvalidConfiguration: ({ problems }) => misconfigured(problems),
      DataDirInUse: ({ message }) =>
        misconfigured([`${message}. Stop that process, or name another folder with BOWLINE_DATA_DIR`])
    })
  )
}).pipe(Command.withDescription("Serve the gateway"))
