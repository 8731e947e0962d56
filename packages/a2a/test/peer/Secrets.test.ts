import { assert, describe, it } from "@effect/vitest"
import type { Dialect } from "@bowline/domain/peer/Agent"
import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import { json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import {
  appends,
  becomes,
  completes,
  data,
  file,
  produces,
  replies,
  says,
  text,
  works,
  type Act
} from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { Effect, Fiber, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as Ed25519 from "../../src/identity/Ed25519.ts"
import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import * as BinduIdentity from "../../src/identity/BinduIdentity.ts"
import { memory, question, reasonOf, start } from "./call.ts"

const token = 's3cr/t-"0\\1'

const seed = Redacted.make(new Uint8Array(32).fill(7))
const client = memory.pipe(
  Layer.provide([
    Layer.succeed(EnvironmentSecrets, {
      isAllowed: () => true,
      get: () => Effect.succeed(Option.some(Redacted.make(token)))
    }),
    Layer.succeed(GatewayIdentity, Option.some(BinduIdentity.fromKeys("did:bindu:test", Ed25519.fromSeed(seed))))
  ])
)

const bearer = { type: "bearer", token } as const

/** Everything that a call tells, and what the caller reads when it puts the messages one behind the other. */
const shownBy = Effect.fnUntraced(function* (
  acts: ReadonlyArray<Act>,
  {
    dialect = "a2a-0.3",
    ...fields
  }: Omit<NonNullable<Parameters<typeof question>[1]>, "dialect"> & {
    readonly dialect?: Dialect
  } = {}
) {
  const peer = yield* serve({ dialect, streams: true, token, acts })
  const { events, fiber } = yield* start(question(peer.url, { auth: bearer, streaming: true, dialect, ...fields }))
  yield* TestClock.adjust("10 minutes")
  const { content, files = [] } = yield* Fiber.join(fiber)
  const texts = events.flatMap((event) =>
    event._tag === "Progress" ? [event.message ?? ""] : event._tag === "Artifact" ? [event.content] : []
  )
  const inARow = texts.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join("")
  return {
    content,
    events,
    texts,
    everything: [inARow, JSON.stringify(events), content, JSON.stringify([content, files])]
  }
})

const assertHidden = (everything: ReadonlyArray<string>, secret = token) => {
  for (const shown of everything) {
    assert.notInclude(shown, secret)
    assert.notInclude(shown, JSON.stringify(secret).slice(1, -1))
  }
}

const split = (at: number) => [token.slice(0, at), token.slice(at)] as const
const offsets = Array.from({ length: token.length - 1 }, (_, index) => index + 1)
const pause = works("6 seconds")

describe.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)("a token that a peer repeats in pieces in %s", (dialect) => {
  it.effect.each(offsets)("is not in an artifact that is put together, split at %i", (at) =>
    Effect.gen(function* () {
      const [head, tail] = split(at)
      for (const streaming of [true, false]) {
        const acts = [produces(`It is ${head}`), pause, appends(`${tail}!`), pause, completes("Done")]
        const { content, everything, texts } = yield* shownBy(acts, { dialect, streaming })
        assertHidden(everything)
        assert.strictEqual(content, "Done\n\nIt is [redacted]!")
        assert.include(texts, "It is [redacted]!")
      }
    }).pipe(Effect.provide(client))
  )

  it.effect.each(offsets)("is not in messages of the status that follow one another, split at %i", (at) =>
    Effect.gen(function* () {
      const [head, tail] = split(at)
      for (const streaming of [true, false]) {
        const acts = [says(`It is ${head}`), pause, says(`${tail}!`), pause, completes("Done")]
        assertHidden((yield* shownBy(acts, { dialect, streaming })).everything)
        const last = [says(`It is ${head}`), pause, completes(`${tail}!`)]
        const { content, everything } = yield* shownBy(last, { dialect, streaming })
        assertHidden([...everything, everything[0] + content])
      }
    }).pipe(Effect.provide(client))
  )

  it.effect("is not seen when it comes character by character", () =>
    Effect.gen(function* () {
      const [first = "", ...others] = token
      const messages = token.split("").flatMap((character) => [says(character), works("1 second")])
      assertHidden((yield* shownBy([...messages, completes("Done")], { dialect })).everything)
      const pieces = [produces(first), ...others.map((character) => appends(character)), completes("Done")]
      const { content, everything } = yield* shownBy(pieces, { dialect })
      assertHidden(everything)
      assert.strictEqual(content, "Done\n\n[redacted]")
    }).pipe(Effect.provide(client))
  )

  it.effect("is in no part, name, metadata or file", () =>
    Effect.gen(function* () {
      const nested = JSON.stringify({ token })
        .replace("s3", String.raw`\u00733`)
        .replace("/", String.raw`\/`)
      const bytes = Buffer.from(`token: ${token}`).toString("base64")
      for (const parts of [
        [text(token)],
        [text(nested)],
        [data({ [token]: 1 })],
        [data({ list: [`a ${token}`] })],
        [text("a"), data({ [token]: { [token]: token } })],
        [text("It is s3cr"), text(token.slice(4))],
        [file({ name: token, mimeType: "text/plain", bytes })],
        [file({ name: "a", mimeType: token, uri: `https://files.example/${token}` })]
      ]) {
        for (const acts of [[produces(parts), completes(parts)], [replies(parts)], [says(parts), pause, completes()]]) {
          const { everything } = yield* shownBy(acts, { dialect })
          assertHidden(everything)
          assertHidden(everything, bytes)
          for (const shown of everything) assert.notMatch(shown, /\\u00733cr/)
        }
      }
      const asks = [becomes("input-required", [text("Which?")], { [token]: token })]
      assertHidden((yield* shownBy(asks, { dialect })).everything)
    }).pipe(Effect.provide(client))
  )
})

describe("a message that may end with the beginning of a token", () => {
  it.effect("waits for the next one, and no message is lost", () =>
    Effect.gen(function* () {
      const acts = [says("s3cr"), pause, says("uel"), pause, says("s3cr"), pause, completes("ets")]
      const { content, texts } = yield* shownBy(acts)
      assert.deepStrictEqual(
        texts.filter((one) => one !== ""),
        ["s3cr", "uel", "s3cr"]
      )
      assert.strictEqual(content, "s3cr\n\nets")
    }).pipe(Effect.provide(client))
  )

  it.effect("is not told before the next one comes", () =>
    Effect.gen(function* () {
      const acts = [says("Reading"), pause, says("It is s3cr"), pause, says("et"), pause, completes("Done")]
      const peer = yield* serve({ streams: true, token, acts })
      const { events, fiber } = yield* start(question(peer.url, { auth: bearer, streaming: true }))
      const messages = () =>
        events.flatMap((event) => (event._tag === "Progress" && event.message ? [event.message] : []))
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(messages(), ["Reading"])
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(messages(), ["Reading", "It is s3cr", "et"])
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(fiber)
    }).pipe(Effect.provide(client))
  )

  it.effect("is not cut in the middle of one", () =>
    Effect.gen(function* () {
      const { everything } = yield* shownBy([says("m".repeat(65_530) + token), pause, completes("Done")])
      for (const shown of everything) assert.notInclude(shown, "s3cr")
    }).pipe(Effect.provide(client))
  )
})

describe("the token of", () => {
  const issuer = Effect.gen(function* () {
    const network = yield* Network
    const { url } = yield* network.serve(() =>
      Effect.sync(() => json(200, { access_token: token, token_type: "bearer", expires_in: 3_600 }))
    )
    return {
      type: "oauth2_client_credentials",
      token_url: `${url}/token`,
      client_id: "us",
      client_secret_env_var: "SECRET"
    } as const
  })

  it.effect.each([
    ["a variable", Effect.succeed({ type: "bearer_env", env_var: "TOKEN" } as const)],
    ["a signed request", Effect.succeed({ type: "did_signed", token_env_var: "TOKEN" } as const)],
    ["a token endpoint", issuer]
  ] as const)("%s is hidden, however it is split", ([, auth]) =>
    Effect.gen(function* () {
      const fields = { auth: yield* auth }
      for (const at of offsets) {
        const [head, tail] = split(at)
        const acts = [says(head), pause, says(tail), produces(head), appends(tail), completes("Done")]
        const { content, everything } = yield* shownBy(acts, fields)
        assertHidden(everything)
        assert.strictEqual(content, "Done\n\n[redacted]")
      }
    }).pipe(Effect.provide(client))
  )
})

it.effect("a token that was renewed in the middle of a call stays hidden", () =>
  Effect.gen(function* () {
    const network = yield* Network
    let count = 0
    const { url } = yield* network.serve(() =>
      Effect.sync(() => json(200, { access_token: `token-${++count}`, token_type: "bearer", expires_in: 3_600 }))
    )
    const peer = yield* network.serve(({ headers }) =>
      Effect.succeed(
        headers["authorization"] === "Bearer token-1"
          ? json(401, {})
          : json(200, { result: { kind: "message", role: "agent", parts: [text("token-1, token-2")] } })
      )
    )
    const auth = {
      type: "oauth2_client_credentials",
      token_url: `${url}/token`,
      client_id: "us",
      client_secret_env_var: "SECRET"
    } as const
    const { fiber } = yield* start(question(peer.url, { auth }))
    assert.strictEqual((yield* Fiber.join(fiber)).content, "[redacted], [redacted]")
  }).pipe(Effect.provide(client))
)

it.effect("a refusal does not show a token, not even as a name", () =>
  Effect.gen(function* () {
    const network = yield* Network
    const answers = [
      json(200, { error: { code: -32000, message: `No ${token}`, data: { [token]: token } } }),
      json(402, { [token]: token }),
      json(500, { [token]: token }),
      json(200, { result: { kind: "task", [token]: token, id: 1 } })
    ]
    const peer = yield* network.serve(() => Effect.sync(() => answers.shift() ?? json(404, {})))
    for (const tag of ["rpc", "payment_required", "http", "protocol"]) {
      const reason = yield* reasonOf(yield* start(question(peer.url, { auth: bearer })))
      assert.strictEqual(reason._tag, tag)
      assertHidden([reason.message, JSON.stringify(reason)])
    }
  }).pipe(Effect.provide(client))
)
