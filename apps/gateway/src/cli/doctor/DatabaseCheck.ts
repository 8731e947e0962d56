import { inspect as inspectFolder } from "@bowline/storage-sql/unstable/embedded/DataDir"
import { inspect } from "@bowline/storage-sql/unstable/migration/Inspection"
import { Effect, Redacted } from "effect"
import { accessSync, constants, existsSync, statSync } from "node:fs"
import { join, resolve } from "node:path"
import type { Database, GatewayConfig } from "../../config/GatewayConfig.ts"
import { skew } from "./ClockSkew.ts"
import { type Check, fail, ok, unreachable, warn } from "./Finding.ts"
import { nearest } from "./MachineChecks.ts"

/** Connections of one gateway: its pool, one for renewals, and two for notices. */
const needed = 13

const isWritable = (folder: string): boolean => {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return statSync(folder).isDirectory()
  } catch {
    return false
  }
}

/** Only one process may open the embedded database, so nothing here opens it. */
const embedded = Effect.fnUntraced(function* (dataDir: string) {
  const folder = resolve(dataDir)
  const place = nearest(folder)
  if (!isWritable(place)) {
    return [
      fail(
        `${place} is no folder that this process may write to`,
        "Correct its rights, or name another folder with BOWLINE_DATA_DIR"
      )
    ]
  }
  if (place !== folder) return [ok(`embedded; serve creates ${folder}`)]
  const { isHeld, pid } = yield* inspectFolder(folder)
  if (isHeld) {
    const who = pid === undefined ? "a process" : `process ${pid}`
    return [ok(`embedded, in ${folder}, which ${who} has open: its tables are not looked at`)]
  }
  return [
    ok(
      existsSync(join(folder, "postgres"))
        ? `embedded, in ${folder}, which nobody has open; serve brings its tables up to date`
        : `embedded; serve creates it in ${folder}`
    )
  ]
})

type Inspection = Effect.Success<ReturnType<typeof inspect>>

const ofServer = (where: string, { facts, migrations }: Inspection) => {
  const { connections = 0, isReadOnly = false, maxConnections = 0, mayCreate = true, version = "" } = facts ?? {}
  const { done, pending, unknown } = migrations
  const server = `Postgres ${version} at ${where}`
  const free = maxConnections - connections
  const count = `${done} migrations`
  return [
    isReadOnly
      ? fail(
          `${server} takes no writes`,
          "Name the primary server in DATABASE_URL, not a standby, or switch default_transaction_read_only off"
        )
      : ok(server),
    free < needed
      ? warn(
          `${free} of ${maxConnections} connections are free, and a gateway takes up to ${needed}`,
          "Raise max_connections of the server"
        )
      : ok(`${free} of ${maxConnections} connections are free`),
    {
      check: "migrations",
      ...(pending.length > 0 && !mayCreate
        ? fail(
            `${pending.length} are pending, and the user may not create tables`,
            "grant create on its schema to the user of DATABASE_URL"
          )
        : unknown.length > 0
          ? warn(
              `${count}, of which this version does not know ${unknown.join(", ")}`,
              "Use the version that made them, or a later one"
            )
          : done === 0
            ? ok("none yet; serve creates the tables")
            : pending.length > 0
              ? warn(`${count}; pending: ${pending.join(", ")}`, "Back the database up; the next serve runs them")
              : ok(`${count}, none is pending`))
    }
  ]
}

const served = (url: Redacted.Redacted) => {
  const { host, pathname } = new URL(Redacted.value(url))
  const where = `${host}${pathname}`
  return Effect.scoped(inspect(url)).pipe(
    Effect.map((inspection) => [
      ...ofServer(where, inspection),
      skew(`the server of the database`, inspection.aheadMs)
    ]),
    Effect.catchTag("StorageError", (error) =>
      Effect.succeed([
        unreachable(
          `Postgres at ${where}`,
          error.reason.cause,
          "Expected a Postgres server that answers; see DATABASE_URL"
        )
      ])
    )
  )
}

const findings = (database: Database) => {
  switch (database._tag) {
    case "Memory":
      return Effect.succeed([ok("none: memory: keeps nothing")])
    case "Embedded":
      return embedded(database.dataDir)
    case "Postgres":
      return served(database.url)
  }
}

/** Whether the database can be used. It creates nothing, and runs no migration. */
export const databaseCheck = ({ database }: GatewayConfig["Service"]): Check => ({
  name: "database",
  find: findings(database)
})
