import { CallerName } from "@bowline/domain/caller/CallerName"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { AccountGrants } from "@bowline/runtime/unstable/auth/AccountGrants"
import { seal } from "@bowline/runtime/unstable/store/Sealing"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { type Host, json, text } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Exit, Fiber, Layer, Option, Redacted } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import * as Discovery from "../../src/http/AccountDiscovery.ts"
import * as GrantedAccounts from "../../src/http/GrantedAccounts.ts"
import { placeOf } from "../../src/http/FoundServer.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"

const publicUrl = "https://gateway.test"
const secretKey = Redacted.make(Buffer.alloc(32, 7))

/** The hosts of the network, as if they had TLS. */
const Secure = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(
    HttpClient.HttpClient,
    HttpClient.mapRequest((request) =>
      HttpClientRequest.setUrl(request, request.url.replace(/^https:(\/\/host-\d+\.test)/, "http:$1"))
    )
  )
)

/** An MCP server at `/mcp`, its authorization server, and two replicas on one store. Each path answers as it should, or as `answers` says. */
const given = Effect.gen(function* () {
  const network = yield* Network
  const answers = new Map<string, Host>()
  const asked: Array<string> = []
  const places = { resource: "", issuer: "" }
  const serve = (own: (path: string) => object | undefined) =>
    network.serve((request) =>
      Effect.suspend(() => {
        const path = request.url.pathname
        asked.push(path)
        const said = own(path)
        return (
          answers.get(path)?.(request) ??
          Effect.succeed(said === undefined ? text(404, "") : json(path === "/register" ? 201 : 200, said))
        )
      })
    )
  const resource = () => ({
    resource: `${places.resource}/mcp`,
    authorization_servers: [places.issuer],
    scopes_supported: ["read"]
  })
  const server = () => ({
    issuer: places.issuer,
    authorization_endpoint: `${places.issuer}/authorize`,
    token_endpoint: `${places.issuer}/token`,
    registration_endpoint: `${places.issuer}/register`,
    response_types_supported: ["code"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: ["client_secret_post"]
  })
  let registrations = 0
  const mcp = yield* serve((path) => (path === "/.well-known/oauth-protected-resource/mcp" ? resource() : undefined))
  const id = yield* serve((path) => {
    if (path === "/.well-known/oauth-authorization-server") return server()
    return path === "/register"
      ? { client_id: `client-${++registrations}`, client_secret: "s", redirect_uris: [callback()] }
      : undefined
  })
  const secure = (url: string) => url.replace("http:", "https:")
  Object.assign(places, { resource: secure(mcp.url), issuer: secure(id.url) })
  const callback = () => `${publicUrl}/accounts/callback/${placeOf(places.issuer)}`
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ accounts_discovered: true }) })
  const config = yield* fromEnvironment(
    {
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      BOWLINE_SECRET_KEY: Redacted.value(secretKey).toString("base64"),
      BOWLINE_PUBLIC_URL: publicUrl,
      OPENAI_API_KEY: "key"
    },
    false
  )
  const store = yield* AccountStore
  /** What a caller has granted, where the gateway has found `discovery`. */
  const grantsOf = (discovery: (typeof Discovery.AccountDiscovery)["Service"]) =>
    Effect.map(Layer.build(Layer.fresh(GrantedAccounts.layer(config))), (built) =>
      Context.get(built, AccountGrants)
    ).pipe(Effect.provideService(Discovery.AccountDiscovery, discovery))
  const replicaOn = (on: AccountStore["Service"]) =>
    Effect.flatMap(Layer.build(Layer.fresh(Discovery.layer(config))), (built) => {
      const discovery = Context.get(built, Discovery.AccountDiscovery)
      return discovery === undefined ? Effect.die("it is not discovered") : Effect.succeed(discovery)
    }).pipe(Effect.provideService(AccountStore, on))
  const url = `${places.resource}/mcp?key=secret`
  const replica = yield* replicaOn(store)
  return {
    answers,
    asked,
    places,
    resource,
    server,
    store,
    url,
    replica,
    other: yield* replicaOn(store),
    replicaOn,
    grantsOf
  }
})

const stores = Layer.mergeAll(MemoryStore.layer, Layer.provideMerge(Secure, MemoryNetwork.layer))

const challengeOf = (parameters: string) => `Bearer error="invalid_token", ${parameters}`

describe("the discovery of an account", () => {
  it.effect(
    "finds the authorization server by the 401, else where RFC 9728 has it, and asks for what the 401 names",
    () =>
      Effect.gen(function* () {
        const { answers, asked, places, replica, resource, server, url } = yield* given
        const { issuer } = places
        const found = { issuer, resource: `${places.resource}/mcp`, scopes: ["read"] }
        assert.deepStrictEqual(yield* replica.find(url, undefined), found)
        assert.notInclude(asked.join(), "key")

        answers.set("/elsewhere", () => Effect.succeed(json(200, resource())))
        const at = `resource_metadata="${places.resource}/elsewhere"`
        answers.set("/.well-known/oauth-protected-resource/mcp", () => Effect.succeed(text(404, "")))
        assert.deepStrictEqual(yield* replica.find(url, challengeOf(`scope="write pay", ${at}`)), {
          ...found,
          scopes: ["write", "pay"]
        })

        // A server that gives tokens for longer is asked for them, and one that reads what a client says of itself needs no registration.
        yield* TestClock.adjust("10 minutes")
        const more = { scopes_supported: ["offline_access"], client_id_metadata_document_supported: true }
        answers.set("/.well-known/oauth-authorization-server", () =>
          Effect.succeed(json(200, { ...server(), ...more }))
        )
        const again = yield* replica.find(url, challengeOf(at))
        assert.deepStrictEqual(again.scopes, ["read", "offline_access"])
        assert.deepStrictEqual(yield* replica.clientOf(again), {
          client_id: `${publicUrl}/accounts/client/${placeOf(issuer)}`
        })
        assert.lengthOf(
          asked.filter((path) => path === "/register"),
          1
        )
        assert.strictEqual(yield* replica.hostOf(again), new URL(issuer).host)
      }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("believes nobody who speaks for another resource or issuer, has no PKCE, or sends it elsewhere", () =>
    Effect.gen(function* () {
      const { answers, asked, places, replica, resource, server, url } = yield* given
      const ofResource = "/.well-known/oauth-protected-resource/mcp"
      const ofServer = "/.well-known/oauth-authorization-server"
      const refused = Effect.fnUntraced(function* (path: string, answer: ReturnType<typeof json>, challenge?: string) {
        answers.set(path, () => Effect.succeed(answer))
        const { reason } = yield* Effect.flip(replica.find(url, challenge))
        answers.delete(path)
        return reason.message
      })
      const said = (body: object) => json(200, { ...resource(), ...body })
      const cases = [
        [
          ofResource,
          said({ resource: "https://other.test/mcp" }),
          "It says that it is the resource https://other.test/mcp"
        ],
        [ofResource, said({ resource: `${places.resource}/mcp/more` }), "It says that it is the resource"],
        [ofResource, said({ authorization_servers: [] }), "It names no authorization server"],
        [
          ofResource,
          said({ authorization_servers: ["http://id.test"] }),
          "Its authorization server is not at an https URL"
        ],
        [ofResource, said({ authorization_servers: ["http://127.0.0.1:3001"] }), "is not at an https URL"],
        [
          ofResource,
          text(302, "", { location: "https://10.0.0.1/" }),
          "does not implement OAuth 2.0 Protected Resource Metadata"
        ],
        [ofResource, text(200, "x".repeat(600_000)), "larger than 512 KiB"],
        [ofServer, json(200, { ...server(), issuer: "https://other.test" }), "https://other.test"],
        [
          ofServer,
          json(200, { ...server(), token_endpoint: "http://127.0.0.1/token" }),
          "Its token_endpoint is not an https URL"
        ],
        [ofServer, json(200, { ...server(), code_challenge_methods_supported: ["plain"] }), "PKCE with S256"],
        [ofServer, text(307, "", { location: "https://10.0.0.1/" }), "says nothing of itself"]
      ] as const
      for (const [path, answer, expected] of cases) {
        const message = yield* refused(path, answer)
        assert.include(message, expected)
        assert.include(message, "The server wants an account, and the gateway cannot find out which")
      }
      const elsewhere = challengeOf('resource_metadata="https://10.0.0.1/metadata"')
      assert.include(yield* refused(ofResource, said({}), elsewhere), "is not on its own origin")
      const many = challengeOf(`scope="${Array.from({ length: 65 }, (_, at) => `scope-${at}`).join(" ")}"`)
      assert.include(yield* refused("/x", said({}), many), "scopes")
      assert.notInclude(asked, "/register")
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("stays where it was granted, whatever the server and the issuer say later", () =>
    Effect.gen(function* () {
      const { answers, grantsOf, places, replica, resource, server, store, url } = yield* given
      const found = yield* replica.find(url, undefined)
      const { token } = yield* grantsOf(replica)
      const ann = CallerName.make("ann")
      const account = `${places.resource}/mcp`
      const connect = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const client = { client_id: "client-0" }
        const tokens = JSON.stringify({ access_token: "access-0", refresh_token: "refresh-0", found, client })
        const sealed = seal(tokens, `account_grant ${account} ann`, secretKey)
        yield* store.connect({ owner: ann, account }, { sealed, scopes: [], expires_at: now, now })
      })
      const sent: Array<string> = []
      answers.set("/token", ({ body, url }) => {
        sent.push(`${url.origin} ${body}`)
        return Effect.succeed(json(200, { access_token: "access-1", token_type: "bearer", expires_in: 300 }))
      })

      // The server names another issuer now, which the next grant is for. This one is renewed as it was given.
      const moved = { ...resource(), authorization_servers: [places.resource] }
      answers.set("/.well-known/oauth-protected-resource/mcp", () => Effect.succeed(json(200, moved)))
      yield* connect
      assert.deepStrictEqual(Option.map(yield* token(ann, account), Redacted.value), Option.some("access-1"))
      assert.lengthOf(sent, 1)
      assert.include(sent[0], places.issuer.replace("https:", "http:"))
      const parameters = new URLSearchParams(sent[0]?.split(" ")[1])
      assert.deepInclude(Object.fromEntries(parameters), {
        client_id: "client-0",
        refresh_token: "refresh-0",
        resource: found.resource
      })

      // The issuer says that it is another one: the token goes nowhere.
      yield* TestClock.adjust("10 minutes")
      const other = { ...server(), issuer: places.resource, token_endpoint: `${places.resource}/token` }
      answers.set("/.well-known/oauth-authorization-server", () => Effect.succeed(json(200, other)))
      yield* connect
      assert.isTrue(Exit.isFailure(yield* Effect.exit(token(ann, account))))
      assert.lengthOf(sent, 1)
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("registers one client for both replicas, and another one an hour later", () =>
    Effect.gen(function* () {
      const { asked, other, places, replica, url } = yield* given
      const found = yield* Effect.all(
        [replica, other, replica, other].map(({ find }) => find(url, undefined)),
        { concurrency: "unbounded" }
      ).pipe(Effect.forkChild)
      yield* TestClock.adjust("1 second")
      const [first] = yield* Fiber.join(found)
      const registrations = () => asked.filter((path) => path === "/register").length
      assert.strictEqual(registrations(), 1)
      const client = { client_id: "client-1", client_secret: "s", isSecretInBody: true }
      if (first === undefined) return assert.fail("nothing was found")
      assert.deepStrictEqual(yield* other.clientOf(first), client)
      assert.strictEqual(other.callbackOf(first), `${publicUrl}/accounts/callback/${placeOf(places.issuer)}`)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual((yield* other.clientOf(first)).client_id, "client-2")
      assert.strictEqual((yield* replica.clientOf(first)).client_id, "client-2")
      assert.strictEqual(registrations(), 2)
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("registers anew where a replica has died between its registration and the store", () =>
    Effect.gen(function* () {
      const { asked, other, replicaOn, store, url } = yield* given
      const dying = yield* replicaOn({ ...store, connect: () => Effect.never })
      const killed = yield* Effect.forkChild(dying.find(url, undefined))
      yield* TestClock.adjust("1 second")
      assert.include(asked, "/register")
      yield* Fiber.interrupt(killed)
      const found = yield* Effect.forkChild(other.find(url, undefined))
      yield* TestClock.adjust("4 seconds")
      assert.isUndefined(found.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* other.clientOf(yield* Fiber.join(found))).client_id, "client-2")
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("says why a server does not register the gateway, and asks again a moment later", () =>
    Effect.gen(function* () {
      const { answers, asked, other, replica, server, url } = yield* given
      answers.set("/register", () =>
        Effect.succeed(json(403, { error: "access_denied", error_description: "not you" }))
      )
      for (const { find } of [replica, other]) {
        assert.include((yield* Effect.flip(find(url, undefined))).reason.message, "not you")
      }
      assert.lengthOf(
        asked.filter((path) => path === "/register"),
        1
      )
      answers.delete("/register")
      yield* TestClock.adjust("6 seconds")
      yield* replica.find(url, undefined)

      yield* TestClock.adjust("1 hour")
      const { registration_endpoint: _, ...closed } = server()
      answers.set("/.well-known/oauth-authorization-server", () => Effect.succeed(json(200, closed)))
      const { reason } = yield* Effect.flip(replica.find(url, undefined))
      assert.include(reason.message, "registers no clients. Name the account in the configuration")
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect("waits 5 s for an answer, and ends with whoever wants to know", () =>
    Effect.gen(function* () {
      const { answers, replica, url } = yield* given
      const left = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      answers.set("/.well-known/oauth-authorization-server", () =>
        Deferred.succeed(begun, undefined).pipe(
          Effect.andThen(Effect.never),
          Effect.onInterrupt(() => Deferred.succeed(left, undefined))
        )
      )
      const leaving = yield* Effect.forkChild(replica.find(url, undefined))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(leaving)
      yield* Deferred.await(left)
      const waiting = yield* Effect.forkChild(Effect.exit(replica.find(url, undefined)))
      yield* TestClock.adjust("5 seconds")
      assert.isTrue(Exit.isFailure(yield* Fiber.join(waiting)))
      answers.clear()
      yield* replica.find(url, undefined)
    }).pipe(Effect.scoped, Effect.provide(stores))
  )
})
