import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { type Child, start } from "./Child.ts"

/** A server to store plans on, for as long as the block lasts. */
export interface Postgres extends AsyncDisposable {
  readonly url: string
  readonly note: string
}

/** That of `DATABASE_URL`; else one of the machine's binaries, or of the npm package, as for the tests, with these settings more: `name=value`. */
export const findPostgres = async (settings: ReadonlyArray<string> = []): Promise<Postgres> => {
  const given = process.env["DATABASE_URL"]
  if (given !== undefined && given !== "") {
    return { url: given, note: "DATABASE_URL", [Symbol.asyncDispose]: async () => {} }
  }
  const keeper = await start("packages/storage-sql/test/postgres/keepServer.ts", settings)
  return {
    url: keeper.url,
    note: `a throw-away server on this machine, ${settings.includes("fsync=on") ? "with" : "without"} fsync`,
    [Symbol.asyncDispose]: () => keeper[Symbol.asyncDispose]()
  }
}

/** A database on it that holds so many events of plans that are over. */
export const keepFilledStore = ({ url }: Postgres, events: number): Promise<Child> =>
  start("packages/storage-sql/test/postgres/keepFilledStore.ts", [url, String(events)])

/** A connection of its own to a database. */
export const connect = async (url: string, applicationName: string) => {
  const scope = Scope.makeUnsafe()
  const sql = await Effect.runPromise(
    PgClient.makeClient({ url: Redacted.make(url), applicationName }).pipe(
      Scope.provide(scope),
      Effect.provide(Reactivity.layer)
    )
  )
  return { sql, [Symbol.asyncDispose]: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}
