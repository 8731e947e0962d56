import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Layer, Option, Record } from "effect"
import { Command, Flag } from "effect/cli"
import cluster from "node:cluster"
import { resolve } from "node:path"
import { setFlagsFromString } from "node:v8"
import type { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatPlace } from "../config/setting/ConfigProblem.ts"
import { type SettingName, table } from "../config/setting/Settings.ts"
import { Ended, exitCodes, failed, misconfigured, reasonOf } from "./Ended.ts"
import { outliveReader } from "./Output.ts"
import * as Signals from "./Signals.ts"

/** The whole configuration. Commands that only ask a gateway start faster without it. */
export const Configuration = Effect.promise(() => import("../config/GatewayConfig.ts"))

const settingFlags = Object.fromEntries(
  Object.values(table).flatMap(({ doc, flag, variable }) =>
    flag === undefined
      ? []
      : [[flag, Flag.String(flag).pipe(Flag.withDescription(`${doc}, instead of ${variable}`), Flag.optional)]]
  )
)

const demo = Flag.Boolean("demo").pipe(
  Flag.withDescription("Answer from a script, with three agents on this machine, whatever else is set"),
  Flag.withDefault(false)
)

const several = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.atLeast(0))

/** What the commands that read the whole configuration take beside settings. */
export const own = {
  demo,
  agent: several("agent", "An agent that plans may ask, as url or name=url; may be given several times"),
  mcp: several(
    "mcp",
    "An MCP server that plans may call, as url, as a command, or as name=…; may be given several times"
  )
}

const flags = { ...own, settings: settingFlags }

const places = ({ placeOf }: GatewayConfig["Service"], ...names: ReadonlyArray<SettingName>): string =>
  names.map((name) => formatPlace(placeOf(name))).join(", ")

const cannotStore = (config: GatewayConfig["Service"], { message, reason }: StorageError): Ended => {
  const { database } = config
  const cause = reasonOf(reason.cause)
  return failed(
    database._tag === "Embedded"
      ? `${places(config, "dataDir")}: The embedded database in ${resolve(database.dataDir)} cannot be used: ${cause}. ` +
          "Expected a folder that this process may write to, on a disk with space; else use a Postgres server"
      : `${places(config, "databaseUrl")}: ${message}: ${cause}. Expected a Postgres server that answers, and a user who may create tables`
  )
}

interface Own {
  readonly demo: boolean
  readonly agent: ReadonlyArray<string>
  readonly mcp: ReadonlyArray<string>
}

/** What these flags say, as the configuration reads it. */
export const commandLineOf = ({ agent, demo, mcp }: Own) => ({ agents: agent, isDemo: demo, mcp })

interface Given extends Own {
  /** By the names of the flags: they take the place of variables. */
  readonly settings: Readonly<Record<string, Option.Option<string>>>
}

/** Serves until a signal stops it, and then shuts down. */
export const run = Effect.fnUntraced(
  function* ({ settings, ...given }: Given = { demo: false, agent: [], mcp: [], settings: {} }) {
    yield* outliveReader
    yield* Signals.outliveHangUps
    const read = (yield* Configuration).fromProcess({ flags: Record.getSomes(settings), ...commandLineOf(given) })
    const config = yield* read
    // A caller's schema may have a regular expression that blocks everybody: V8 then switches to its linear engine.
    setFlagsFromString("--enable-experimental-regexp-engine-on-excessive-backtracks")
    // What V8 would allocate in the old generation at once keeps the rest of its plan until a full collection.
    setFlagsFromString("--no-allocation-site-pretenuring")
    if (config.workers > 1 && cluster.isPrimary) {
      const Workers = yield* Effect.promise(() => import("../worker/Workers.ts"))
      return yield* Effect.raceFirst(Layer.launch(Workers.layer(config, read)), Signals.first).pipe(
        Effect.catchTags({
          // It has said why.
          NeverListened: ({ death }) => new Ended({ code: death.code ?? exitCodes.failed, lines: [] }),
          TooManyDeaths: ({ message }) => failed(message)
        })
      )
    }
    const gateway = yield* Effect.promise(() => import("../Gateway.ts"))
    yield* Effect.raceFirst(Layer.launch(gateway.layer(config)), Signals.first).pipe(
      Effect.catchTags({
        ServeError: ({ cause }) => failed(`${places(config, "host", "port")}: Cannot listen: ${reasonOf(cause)}`),
        StorageError: (error) => cannotStore(config, error),
        MigrationBlocked: ({ message }) =>
          failed(
            `${places(config, "databaseUrl")}: ${message}. End those that hold it, and start again: the next start goes on from there`
          ),
        DataDirInUse: ({ message }) =>
          new Ended({
            code: exitCodes.configuration,
            lines: [`${message}. Stop that process, or name another folder with ${places(config, "dataDir")}`]
          })
      })
    )
  },
  Effect.catchTag("InvalidConfiguration", ({ problems }) => misconfigured(problems)),
  Effect.scoped
)

export const serve = Command.make("serve", flags, run).pipe(Command.withDescription("Serve the gateway"))
