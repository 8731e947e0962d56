import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Config, ConfigProvider, Effect, Exit, Layer, Redacted, Schedule } from "effect"
import { readFileSync } from "node:fs"
import * as SqlStore from "../src/SqlStore.ts"
import { cutWire } from "./postgres/cutWire.ts"
import { migratedDatabase } from "./postgres/freshDatabase.ts"

/** The timers that the system runs for open connections to a local port: `02` is that of keep-alive. */
const timersOf = (port: number): ReadonlyArray<string> => {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, "0")}`
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , address, state]) => address?.endsWith(remote) && state === "01")
    .map(([, , , , , timer]) => timer?.slice(0, 2) ?? "")
}

describe("the stores on a Postgres server", () => {
  it.effect("name the variable that is missing", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Layer.build(SqlStore.layerPostgresConfig({ url: Config.Redacted("MY_DATABASE") }))
      )
      assert.include(String(error), "MY_DATABASE")
    }).pipe(Effect.scoped, Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({})))
  )

  it.live("say why the server cannot be reached", () =>
    Effect.gen(function* () {
      const url = Redacted.make("postgres://bowline@127.0.0.1:1/bowline")
      const exit = yield* Effect.exit(Layer.build(SqlStore.layerPostgres({ url })))
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "ECONNREFUSED")
    }).pipe(Effect.scoped)
  )

  it.live("have the system ask on every idle connection whether the server is still there", () =>
    Effect.gen(function* () {
      const { url } = yield* cutWire(yield* migratedDatabase)
      const stores = yield* Layer.build(SqlStore.layerPostgresConfig({ url: Config.succeed(url) }))
      yield* Effect.provide(Given.createHeld(), stores)
      const port = Number(new URL(Redacted.value(url)).port)
      yield* Effect.sync(() => timersOf(port)).pipe(
        Effect.repeat({
          until: (timers) => timers.length >= 3 && timers.every((timer) => timer === "02"),
          schedule: Schedule.spaced("10 millis")
        })
      )
    })
  )
})
