import { Unavailable, StorageError } from "@bowline/domain/storage/StorageError"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Metric } from "effect"
import { TestClock } from "effect/testing"
import * as LookedUp from "../../src/telemetry/LookedUp.ts"
import { text } from "../../src/telemetry/PrometheusText.ts"
import { parse } from "./Scrape.ts"

const away = new StorageError({ reason: new Unavailable({ cause: "down" }) })

it.effect(
  "the states of credentials and breakers are looked up every 15 s, and stay while the database is away",
  () => {
    let state: "ok" | "out" | "away" = "ok"
    let breaker: "closed" | "open" = "open"
    const pool = Layer.mock(CredentialPool, {
      list: Effect.suspend(() =>
        state === "away"
          ? Effect.fail(away)
          : Effect.succeed([{ id: "openai-1", provider: "openai", state, windows: [], last_used_at: null }])
      )
    })
    const peers = Layer.mock(PeerClient, {
      peers: Effect.sync(() => [
        { endpoint: "http://bob", dialect: null, card: null, breaker: { state: breaker, openUntil: null } }
      ])
    })
    const measured = Effect.map(text, (text) =>
      ["bowline_credentials", "bowline_peer_breakers"].flatMap((name) =>
        (parse(text).get(name)?.samples ?? []).filter(({ value }) => value > 0).map(({ labels }) => labels["state"])
      )
    )
    return Effect.gen(function* () {
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(yield* measured, ["ok", "open"])
      state = "out"
      yield* TestClock.adjust("14 seconds")
      assert.deepStrictEqual(yield* measured, ["ok", "open"])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* measured, ["out", "open"])
      state = "away"
      breaker = "closed"
      yield* TestClock.adjust("15 seconds")
      assert.deepStrictEqual(yield* measured, ["out", "closed"])
    }).pipe(
      Effect.provide(LookedUp.layer.pipe(Layer.provide([pool, peers]))),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  }
)
