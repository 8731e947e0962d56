import { CallerName } from "@bowline/domain/caller/CallerName"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { FileLinks, layer } from "../../src/file/FileLinks.ts"
import { SecretKey } from "../../src/store/SecretKey.ts"

const file = FileId.make("file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd")
const link = { file, owner: CallerName.make("ann"), peer: "https://plot.example" }

/** A replica with this key, or with none. */
const replica = (key?: number) =>
  Layer.provide(
    layer("https://gateway.example"),
    Layer.succeed(
      SecretKey,
      Option.map(Option.fromUndefinedOr(key), (byte) => Redacted.make(Buffer.alloc(32, byte)))
    )
  )

const linked = Effect.gen(function* () {
  const { urlOf } = yield* FileLinks
  return urlOf === undefined ? "" : yield* urlOf(link)
})
const ownerOf = (url: string) =>
  Effect.flatMap(FileLinks, ({ ownerOf }) => ownerOf(file, new URL(url).searchParams.get("token") ?? ""))

describe("the URLs of files", () => {
  it.effect("are good for an hour, at every replica that has the key", () =>
    Effect.gen(function* () {
      const url = yield* Effect.provide(linked, replica(1))
      assert.notInclude(Buffer.from(url.split("token=")[1] ?? "", "base64url").toString("latin1"), "ann")
      yield* TestClock.adjust("59 minutes")
      assert.deepStrictEqual(yield* Effect.provide(ownerOf(url), replica(1)), Option.some(link.owner))
      assert.deepStrictEqual(yield* Effect.provide(ownerOf(url), replica(2)), Option.none())
      assert.deepStrictEqual(yield* Effect.provide(ownerOf(url), replica()), Option.none())
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* Effect.provide(ownerOf(url), replica(1)), Option.none())
    })
  )

  it.effect("are good for the process alone that has no key", () =>
    Effect.gen(function* () {
      const url = yield* linked
      assert.deepStrictEqual(yield* ownerOf(url), Option.some(link.owner))
    }).pipe(Effect.provide(replica()))
  )
})
