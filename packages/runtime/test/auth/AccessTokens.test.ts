import { assert, describe, it } from "@effect/vitest"
import { json, text, type Host, type HostResponse } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { Deferred, Duration, Effect, Fiber, Option, Redacted } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as AccessTokens from "../../src/auth/AccessTokens.ts"

const secrets: Readonly<Record<string, string>> = { SECRET: "s3cr3t/of +bowline", WORD: "planted_word" }

/** A token endpoint, and the tokens that it gives: `token-1`, `token-2` … unless it answers something else. */
const given = Effect.fnUntraced(function* (
  answer: (count: number) => Effect.Effect<HostResponse> = (count) => Effect.succeed(token(count))
) {
  let count = 0
  const host: Host = () => Effect.suspend(() => answer(++count))
  const network = yield* Network
  const { requests, url } = yield* network.serve(host)
  const grant: AccessTokens.ClientGrant = {
    type: "oauth2_client_credentials",
    token_url: `${url}/oauth/token?tenant=1`,
    client_id: "the client:é",
    client_secret_env_var: "SECRET"
  }
  /** What callers have come with. */
  const arrived = new Map<string, string>()
  const tokens = yield* AccessTokens.make(yield* HttpClient.HttpClient, {
    secretOf: (variable) => Effect.succeed(Redacted.make(secrets[variable] ?? "other")),
    tokenOf: (caller) => Effect.sync(() => Option.map(Option.fromNullishOr(arrived.get(caller)), Redacted.make))
  })
  const get = (fields: Partial<AccessTokens.ClientGrant> = {}) =>
    Effect.map(tokens.get({ ...grant, ...fields }), ({ value }) => Redacted.value(value))
  const exchange = (caller: string | undefined, fields: Partial<AccessTokens.ExchangeGrant> = {}) => {
    const { token_url } = grant
    const as = caller === undefined ? undefined : CallerName.make(caller)
    const exchanged = tokens.get({ type: "token_exchange", token_url, caller: as, ...fields })
    return Effect.map(exchanged, ({ value }) => Redacted.value(value))
  }
  const asked = Effect.map(requests.all, (all) => all.length)
  return { arrived, exchange, tokens, grant, get, requests, asked }
})

const token = (count: number, fields: object = {}) =>
  json(200, { access_token: `token-${count}`, token_type: "Bearer", expires_in: 3_600, ...fields })

describe("a token", () => {
  it.effect("is asked for with the client's credentials in the header, and what it is for in a form", () =>
    Effect.gen(function* () {
      const { get, requests } = yield* given()
      assert.strictEqual(yield* get({ scope: "agents:call other" }), "token-1")
      const [request] = yield* requests.all
      assert.deepInclude(request, { method: "POST", body: "grant_type=client_credentials&scope=agents%3Acall+other" })
      assert.strictEqual(request?.url.search, "?tenant=1")
      assert.strictEqual(request?.headers["content-type"], "application/x-www-form-urlencoded")
      const [scheme, credentials = ""] = request?.headers["authorization"]?.split(" ") ?? []
      assert.strictEqual(scheme, "Basic")
      assert.strictEqual(Buffer.from(credentials, "base64").toString(), "the+client%3A%C3%A9:s3cr3t%2Fof+%2Bbowline")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is one for all calls of a grant, and another one for another client, scope or variable", () =>
    Effect.gen(function* () {
      const { asked, get } = yield* given()
      const same = yield* Effect.all([get(), get(), get()], { concurrency: "unbounded" })
      assert.deepStrictEqual([...same, yield* get()], ["token-1", "token-1", "token-1", "token-1"])
      const others = [{ client_id: "b" }, { scope: "s" }, { client_secret_env_var: "OTHER" }]
      assert.deepStrictEqual(yield* Effect.forEach(others, get), ["token-2", "token-3", "token-4"])
      assert.strictEqual(yield* asked, 4)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("reaches everybody who waits for it, though the first one stops waiting", () =>
    Effect.gen(function* () {
      const open = yield* Deferred.make<void>()
      const { asked, get } = yield* given((count) => Effect.as(Deferred.await(open), token(count)))
      const first = yield* Effect.forkChild(get(), { startImmediately: true })
      const second = yield* Effect.forkChild(get(), { startImmediately: true })
      yield* Fiber.interrupt(first)
      yield* Deferred.succeed(open, undefined)
      assert.strictEqual(yield* Fiber.join(second), "token-1")
      assert.strictEqual(yield* asked, 1)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is abandoned with its request when nobody waits for it any more", () =>
    Effect.gen(function* () {
      const { get, requests } = yield* given(() => Effect.never)
      const waiting = yield* Effect.forkChild(get(), { startImmediately: true })
      const [request] = yield* requests.awaitCount(1)
      yield* Fiber.interrupt(waiting)
      assert.strictEqual(yield* request?.ended ?? Effect.never, "closed")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    [3_600, 3_570],
    ["3600", 3_570],
    [60, 54],
    [undefined, 300],
    [null, 300]
  ] as const)("that expires in %s seconds is used for %s", ([expires_in, seconds]) =>
    Effect.gen(function* () {
      const { get } = yield* given((count) => Effect.succeed(token(count, { expires_in })))
      yield* get()
      yield* TestClock.adjust(Duration.seconds(seconds - 1))
      assert.strictEqual(yield* get(), "token-1")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* get(), "token-2")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that was refused is forgotten, and a newer one is not", () =>
    Effect.gen(function* () {
      const { get, grant, tokens } = yield* given()
      const refused = yield* tokens.get(grant)
      yield* tokens.drop(grant, refused)
      assert.strictEqual(yield* get(), "token-2")
      yield* tokens.drop(grant, refused)
      assert.strictEqual(yield* get(), "token-2")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("a token in exchange for the caller's", () => {
  it.effect("is asked for with the token of the caller, and what acts for the caller", () =>
    Effect.gen(function* () {
      const { arrived, exchange, requests } = yield* given()
      arrived.set("corp:ann", "token of ann")
      const fields = { audience: "https://rigger.test/", scope: "call", actor_token_env_var: "WORD" }
      assert.strictEqual(yield* exchange("corp:ann", fields), "token-1")
      const [request] = yield* requests.all
      assert.deepStrictEqual(Object.fromEntries(new URLSearchParams(request?.body)), {
        grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
        subject_token: "token of ann",
        subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
        actor_token: "planted_word",
        actor_token_type: "urn:ietf:params:oauth:token-type:access_token",
        audience: "https://rigger.test/",
        scope: "call"
      })
      assert.notProperty(request?.headers, "authorization")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("comes from a client that has no secret, or that shows it in the header", () =>
    Effect.gen(function* () {
      const { arrived, exchange, requests } = yield* given()
      arrived.set("corp:ann", "token of ann")
      yield* exchange("corp:ann", { client_id: "desk" })
      yield* exchange("corp:ann", { client_id: "desk", client_secret_env_var: "SECRET" })
      const [open, secret] = yield* requests.all
      assert.strictEqual(new URLSearchParams(open?.body).get("client_id"), "desk")
      assert.notProperty(open?.headers, "authorization")
      assert.isNull(new URLSearchParams(secret?.body).get("client_id"))
      assert.match(secret?.headers["authorization"] ?? "", /^Basic /)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is one for all calls as that caller, and never another caller's, whatever else is the same", () =>
    Effect.gen(function* () {
      const { arrived, asked, exchange, requests } = yield* given()
      for (const caller of ["corp:ann", "corp:bob"]) arrived.set(caller, `token of ${caller}`)
      const all = ["corp:ann", "corp:bob", "corp:ann", "corp:bob"].map((caller) => exchange(caller))
      const [ann, bob, ...again] = yield* Effect.all(all, { concurrency: "unbounded" })
      assert.notStrictEqual(ann, bob)
      assert.deepStrictEqual(again, [ann, bob])
      assert.strictEqual(yield* asked, 2)
      const subjects = (yield* requests.all).map(({ body }) => new URLSearchParams(body).get("subject_token"))
      assert.sameMembers(subjects, ["token of corp:ann", "token of corp:bob"])
      assert.strictEqual(yield* exchange("corp:ann", { audience: "https://other.test/" }), "token-3")
      assert.strictEqual(yield* exchange("corp:ann", { scope: "less" }), "token-4")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is not asked for without a caller, or a valid token of that caller, and is once there is one", () =>
    Effect.gen(function* () {
      const { arrived, asked, exchange } = yield* given()
      arrived.set("corp:bob", "token of bob")
      for (const caller of [undefined, "corp:ann"]) {
        const { reason, verdict } = yield* Effect.flip(exchange(caller))
        assert.deepInclude(reason, { _tag: "account_required", account: null })
        assert.strictEqual(verdict, "refused")
      }
      assert.strictEqual(yield* asked, 0)
      arrived.set("corp:ann", "token of ann")
      assert.strictEqual(yield* exchange("corp:ann"), "token-1")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("a token endpoint", () => {
  it.effect.each([
    [400, "invalid_client", "The token endpoint answered 400: invalid_client"],
    [401, "invalid_grant", "The token endpoint answered 401: invalid_grant"],
    [400, "planted_word", "The token endpoint answered 400"],
    [403, "Sorry, client", "The token endpoint answered 403"]
  ] as const)("that refuses with %s and %s ends the call as auth, without a secret", ([status, error, message]) =>
    Effect.gen(function* () {
      const { get } = yield* given(() => Effect.succeed(json(status, { error, error_description: "planted_word" })))
      const { reason, verdict } = yield* Effect.flip(get({ client_secret_env_var: "WORD" }))
      assert.deepStrictEqual([reason._tag, reason.message, verdict], ["auth", message, "refused"])
      // The status of a 401 of the peer's would have the token renewed.
      assert.notProperty(reason, "status")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect(
    "that is down, or late by 10 seconds, says nothing about the peer, and is asked again by the next call",
    () =>
      Effect.gen(function* () {
        const { asked, get } = yield* given((count) =>
          count === 1 ? Effect.succeed(text(503, "")) : count === 2 ? Effect.never : Effect.succeed(token(count))
        )
        const down = yield* Effect.flip(get())
        assert.deepStrictEqual([down.reason._tag, down.verdict], ["unreachable", "unsent"])
        const late = yield* Effect.forkChild(Effect.flip(get()), { startImmediately: true })
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual((yield* Fiber.join(late)).reason.message, "The token endpoint took longer than 10 seconds")
        assert.strictEqual(yield* get(), "token-3")
        assert.strictEqual(yield* asked, 3)

        const nobody = yield* Effect.flip(get({ token_url: "http://nobody.test/token" }))
        assert.strictEqual(nobody.reason._tag, "auth")
      }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["of another type", token(1, { token_type: "mac" })],
    ["that no header can hold", token(1, { access_token: "a\r\nb: c" })],
    ["that is missing", json(200, { token_type: "bearer" })],
    ["larger than 64 KiB", token(1, { access_token: "t".repeat(65_536) })]
  ] as const)("whose token is one %s is refused, and not quoted", ([, answer]) =>
    Effect.gen(function* () {
      const { get } = yield* given(() => Effect.succeed(answer))
      const { reason, verdict } = yield* Effect.flip(get())
      assert.strictEqual(verdict, "refused")
      assert.match(reason.message, /no bearer token|larger than 64 KiB/)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})
