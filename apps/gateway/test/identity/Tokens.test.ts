import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { createHmac, createPublicKey } from "node:crypto"
import { createServer } from "node:http"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { audience, newKey, serve, service, sign, type SigningKey } from "./OpenIdProvider.ts"

const seconds = () => Math.floor(Date.now() / 1_000)

/** A gateway that takes the tokens of these issuers. */
const startWith = Effect.fnUntraced(function* (
  jwt: ReadonlyArray<object>,
  more: object = {},
  environment: Readonly<Record<string, string>> = {}
) {
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ auth: { jwt }, ...more }) })
  return yield* start(() => [say("x")], {
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    BOWLINE_API_KEYS: "ann=key-of-ann",
    BOWLINE_SHUTDOWN_GRACE: "0s",
    ...environment
  })
})

const by = (token: string) => ({ authorization: `Bearer ${token}` })
const configOf = (url: string, token: string) => send(`${url}/console/config`, { headers: by(token) })

const claimsOf = (issuer: string, more: object = {}) => ({
  iss: issuer,
  aud: audience,
  sub: "alice",
  exp: seconds() + 600,
  ...more
})

describe("a token of an identity provider", () => {
  it.live("names its caller, beside the keys of the configuration", () =>
    Effect.gen(function* () {
      const provider = yield* serve([yield* newKey("one")])
      const { url } = yield* startWith([{ name: "corp", issuer: provider.issuer, audience }])
      const token = yield* provider.token
      const { body, status } = yield* configOf(url, token)
      assert.strictEqual(status, 200, JSON.stringify(body))
      assert.deepInclude(body, { caller: `corp:${service.client_id}`, admin: false })
      const { body: plan } = yield* post(`${url}/plan`, { question: "?" }, by(token))
      const mine = yield* send(`${url}/plans`, { headers: by(token) })
      assert.include(mine.text, String(plan["plan_id"]))
      assert.strictEqual(
        (yield* send(`${url}/plans/${String(plan["plan_id"])}`, { headers: by("key-of-ann") })).status,
        404
      )
      assert.deepInclude((yield* configOf(url, "key-of-ann")).body, { caller: "ann" })
      assert.strictEqual((yield* send(`${url}/plans`)).status, 401)
    }).pipe(Effect.scoped)
  )

  it.live("is enough for a gateway without keys, which others can reach", () =>
    Effect.gen(function* () {
      const key = yield* newKey("one")
      const provider = yield* serve([key])
      const issuer = { name: "corp", issuer: provider.issuer, audience: ["https://other.test", audience] }
      const { url } = yield* startWith([issuer], {}, { BOWLINE_API_KEYS: "", BOWLINE_HOST: "0.0.0.0" })
      const local = url.replace("0.0.0.0", "127.0.0.1")
      assert.strictEqual((yield* send(`${local}/plans`)).status, 401)
      assert.strictEqual((yield* configOf(local, yield* sign(key, claimsOf(provider.issuer)))).status, 200)
    }).pipe(Effect.scoped)
  )

  it.live("is refused with 401 and a description, whatever is wrong with it", () =>
    Effect.gen(function* () {
      const [key, theirs, stranger, elliptic] = [
        yield* newKey("one"),
        yield* newKey("theirs"),
        yield* newKey("one"),
        yield* newKey("curve", "ES384")
      ]
      const provider = yield* serve([key])
      const other = yield* serve([theirs])
      const { url } = yield* startWith([
        { name: "corp", issuer: provider.issuer, audience },
        { name: "shop", issuer: other.issuer, audience, algorithms: ["PS256"] }
      ])
      const good = claimsOf(provider.issuer)
      const { exp: _, ...endless } = good
      const { sub: __, ...nameless } = good
      const pem = createPublicKey({ key: { ...key.jwk }, format: "jwk" }).export({
        type: "spki",
        format: "pem"
      })
      const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url")
      const hmac = (() => {
        const text = `${encode({ alg: "HS256", kid: "one" })}.${encode(good)}`
        return `${text}.${createHmac("sha256", pem).update(text).digest("base64url")}`
      })()
      const evil = yield* serve([stranger])
      const header = { jku: `${evil.issuer}/jwks`, x5u: `${evil.issuer}/jwks`, jwk: { ...stranger.jwk, d: undefined } }
      for (const [what, token, description] of [
        ["another audience", yield* sign(key, { ...good, aud: "https://other.test/" }), /for another audience/],
        [
          "another issuer",
          yield* sign(key, { ...good, iss: "https://evil.test" }),
          /issuer that the gateway does not know/
        ],
        ["another issuer's kid", yield* sign(theirs, good), /signature/],
        ["a stranger's key of that kid", yield* sign(stranger, good), /signature/],
        ["a stranger's key, and where it is", yield* sign(stranger, good, header), /signature/],
        ["an algorithm that is not allowed", yield* sign(elliptic, good), /algorithm that is not allowed/],
        [
          "one that this issuer does not use",
          yield* sign(theirs, { ...good, iss: other.issuer }),
          /algorithm that is not allowed/
        ],
        ["no signature", `${encode({ alg: "none" })}.${encode(good)}.`, /algorithm that is not allowed/],
        ["the public key as the key of an HMAC", hmac, /algorithm that is not allowed/],
        ["expired", yield* sign(key, { ...good, exp: seconds() - 61 }), /has expired/],
        ["not valid yet", yield* sign(key, { ...good, nbf: seconds() + 75 }), /not valid yet/],
        ["no end", yield* sign(key, endless), /no exp/],
        ["nobody", yield* sign(key, nameless), /no sub/],
        ["a name with a line break", yield* sign(key, { ...good, sub: "a\nb" }), /control characters/],
        ["no JSON", "e30.e30.e30", /malformed|issuer|algorithm/],
        ["no token", "not-a-token", /does not know this key/]
      ] as const) {
        const { body, headers, status } = yield* send(`${url}/plans`, { headers: by(token) })
        assert.deepStrictEqual([status, body["code"]], [401, "unauthorized"], what)
        const challenge = headers.get("www-authenticate") ?? ""
        assert.match(challenge, /^Bearer realm="bowline", error="invalid_token", error_description="/, what)
        assert.match(challenge, description, what)
      }
      assert.deepStrictEqual(evil.requests, [])
      for (const claims of [{ exp: seconds() - 45 }, { nbf: seconds() + 45 }]) {
        assert.strictEqual((yield* configOf(url, yield* sign(key, { ...good, ...claims }))).status, 200)
      }
    }).pipe(Effect.scoped)
  )

  it.live(
    "makes a caller, an admin, and members of groups of its claims, and is refused with 403 without what is required",
    () =>
      Effect.gen(function* () {
        const key = yield* newKey("one", "EdDSA")
        const provider = yield* serve([yield* newKey("rsa"), key])
        const { url } = yield* startWith(
          [
            {
              name: "corp",
              issuer: provider.issuer,
              audience,
              caller: "{tenant}/{sub}",
              admin: { claim: "roles", equals: "boss" },
              groups: { claim: "realm.groups" },
              required: { "https://corp.test/staff": true },
              algorithms: ["EdDSA", "RS256"]
            }
          ],
          {
            presets: Object.fromEntries(["red", "blue", "own", "all"].map((name) => [name, { instructions: name }])),
            permissions: {
              "*": { presets: { allow: ["all"] } },
              "group:painters": { presets: { allow: ["red", "blue", "own"] } },
              "group:sober staff": { presets: { allow: ["all"], deny: ["red"] } },
              "corp:acme/zoe": { presets: { allow: ["own"] } }
            }
          }
        )
        const claims = (more: object) =>
          claimsOf(provider.issuer, { tenant: "acme", "https://corp.test/staff": true, ...more })
        const configured = Effect.fnUntraced(function* (more: object) {
          const token = yield* sign(key, claims(more))
          const { body } = yield* configOf(url, token)
          const presets = yield* send(`${url}/presets`, { headers: by(token) })
          const names = (presets.body["presets"] as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)
          return [body["caller"], body["admin"], names.join()]
        })
        assert.deepStrictEqual(yield* configured({}), ["corp:acme/alice", false, "all"])
        assert.deepStrictEqual(yield* configured({ roles: ["staff", "boss"] }), ["corp:acme/alice", true, "all"])
        const painters = { realm: { groups: ["painters", "others"] } }
        assert.deepStrictEqual(yield* configured(painters), ["corp:acme/alice", false, "red,blue,own"])
        const both = { realm: { groups: ["painters", "sober staff"] } }
        assert.deepStrictEqual(yield* configured(both), ["corp:acme/alice", false, "blue,own,all"])
        assert.deepStrictEqual(yield* configured({ ...painters, sub: "zoe" }), ["corp:acme/zoe", false, "own"])

        const token = yield* sign(key, claims(painters))
        const asked = yield* post(`${url}/plan`, { question: "?", preset: "red" }, by(token))
        assert.strictEqual(asked.status, 200, asked.text)
        assert.notInclude(
          (yield* send(`${url}/plans/${String(asked.body["plan_id"])}`, { headers: by(token) })).text,
          "painters"
        )
        assert.strictEqual((yield* post(`${url}/plan`, { question: "?", preset: "all" }, by(token))).status, 400)

        for (const more of [{ "https://corp.test/staff": false }, { "https://corp.test/staff": "true" }]) {
          const { headers, status } = yield* send(`${url}/plans`, { headers: by(yield* sign(key, claims(more))) })
          assert.strictEqual(status, 403)
          assert.match(headers.get("www-authenticate") ?? "", /error="insufficient_scope"/)
        }
        for (const more of [{ tenant: undefined }, { tenant: "a/b" }, { sub: "b/c" }]) {
          assert.strictEqual((yield* send(`${url}/plans`, { headers: by(yield* sign(key, claims(more))) })).status, 401)
        }
      }).pipe(Effect.scoped)
  )

  it.live("is refused in a URL, before any route, and so is a key", () =>
    Effect.gen(function* () {
      const key = yield* newKey("one")
      const provider = yield* serve([key])
      const { url } = yield* startWith([{ name: "corp", issuer: provider.issuer, audience }])
      const token = yield* sign(key, claimsOf(provider.issuer))
      for (const query of [`access_token=${token}`, `q=${token}`, `token=bw_${"a".repeat(43)}`, "access_token=x"]) {
        for (const path of ["/plans", "/health", "/mcp"]) {
          const { headers, status } = yield* send(`${url}${path}?${query}`, { headers: by(token) })
          assert.strictEqual(status, 401, `${path}?${query}`)
          assert.match(headers.get("www-authenticate") ?? "", /error="invalid_token", error_description="[^"]*URL"/)
        }
      }
      assert.strictEqual((yield* send(`${url}/plans?q=what`, { headers: by(token) })).status, 200)
    }).pipe(Effect.scoped)
  )

  it.live("is asked for by a 401 that says where to get one", () =>
    Effect.gen(function* () {
      const provider = yield* serve([yield* newKey("one")])
      const { url } = yield* startWith([{ name: "corp", issuer: provider.issuer, audience }])
      for (const path of ["/plans", "/mcp", "/v1/models", "/a2a"]) {
        const { headers, status } = yield* send(`${url}${path}`, { method: path === "/plans" ? "GET" : "POST" })
        if (status === 405) continue
        assert.strictEqual(status, 401, path)
        const [, metadata = ""] = /resource_metadata="([^"]+)"/.exec(headers.get("www-authenticate") ?? "") ?? []
        const described = yield* send(metadata, { headers: { origin: "https://anywhere.test" } })
        assert.deepStrictEqual(
          [described.status, described.body],
          [
            200,
            {
              resource: url,
              authorization_servers: [provider.issuer],
              bearer_methods_supported: ["header"],
              resource_name: "Bowline"
            }
          ]
        )
      }
      const { body } = yield* send(`${url}/.well-known/oauth-protected-resource/mcp`)
      assert.strictEqual(body["resource"], `${url}/mcp`)
      // The client of the protocol's SDK is told of the gateway alone, and finds the provider.
      const client = new Client({ name: "test", version: "1.0.0" })
      const authProvider = new ClientCredentialsProvider({
        clientId: service.client_id,
        clientSecret: service.client_secret,
        scope: "ask",
        expectedIssuer: provider.issuer
      })
      const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider })
      yield* Effect.promise(() => client.connect(transport))
      yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
      const { tools } = yield* Effect.promise(() => client.listTools())
      assert.include(
        tools.map(({ name }) => name),
        "plan"
      )
      const { url: plain } = yield* start(() => [say("x")], { BOWLINE_API_KEYS: "ann=key-of-ann" })
      assert.strictEqual((yield* send(`${plain}/.well-known/oauth-protected-resource`)).status, 404)
    }).pipe(Effect.scoped)
  )
})

describe("the keys of an identity provider", () => {
  it.effect("are asked for once in 30 s at most, rotate, and go on working while it is away", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.now())
      const [one, two, three] = [yield* newKey("one"), yield* newKey("two"), yield* newKey("three")]
      const provider = yield* serve([one])
      const { url } = yield* startWith([{ name: "corp", issuer: provider.issuer, audience }])
      const asked = () => provider.requests.filter((path) => path === "/jwks").length
      const statusOf = (key: SigningKey) =>
        Effect.flatMap(sign(key, claimsOf(provider.issuer, { exp: seconds() + 86_400 })), (token) =>
          Effect.map(configOf(url, token), ({ status }) => status)
        )
      const together = yield* Effect.all([statusOf(one), statusOf(one), statusOf(two)], { concurrency: 3 })
      assert.deepStrictEqual([together, asked()], [[200, 200, 401], 1])
      yield* provider.rotate([one, two])
      yield* TestClock.adjust("29 seconds")
      assert.deepStrictEqual([yield* statusOf(two), asked()], [401, 1])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([yield* statusOf(two), asked()], [200, 2])
      yield* provider.setAway(true)
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual([yield* statusOf(one), yield* statusOf(three)], [200, 503])
      yield* TestClock.adjust("10 seconds")
      const { body, headers } = yield* configOf(
        url,
        yield* sign(three, claimsOf(provider.issuer, { exp: seconds() + 86_400 }))
      )
      assert.deepInclude(body, { status: 503, code: "unavailable", retryable: true })
      assert.strictEqual(headers.get("retry-after"), "20")
      yield* provider.setAway(false)
      yield* provider.rotate([two, three])
      yield* TestClock.adjust("20 seconds")
      // What it has taken back is refused as soon as it is known.
      assert.deepStrictEqual(
        [yield* statusOf(three), yield* statusOf(one), yield* statusOf(two), asked()],
        [200, 401, 200, 4]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("that it takes back are refused within ten minutes and a request, also if nobody brings another one", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.now())
      const [one, two] = [yield* newKey("one"), yield* newKey("two")]
      const provider = yield* serve([one])
      const { url } = yield* startWith([{ name: "corp", issuer: provider.issuer, audience }])
      const status = Effect.flatMap(sign(one, claimsOf(provider.issuer, { exp: seconds() + 86_400 })), (token) =>
        Effect.map(configOf(url, token), ({ status }) => status)
      )
      assert.strictEqual(yield* status, 200)
      yield* provider.rotate([two])
      yield* TestClock.adjust("599 seconds")
      assert.strictEqual(yield* status, 200)
      assert.lengthOf(provider.requests, 2)
      yield* TestClock.adjust("1 second")
      yield* Effect.repeat(status, { until: (status) => status === 401 })
      assert.lengthOf(provider.requests, 3)
    }).pipe(Effect.scoped)
  )

  it.live("are believed only if they are few, and of the issuer that the configuration names", () =>
    Effect.gen(function* () {
      const key = yield* newKey("one")
      const { d: _, ...open } = key.jwk
      const answers = { issuer: "", keys: [{}] as ReadonlyArray<object> }
      const server = createServer((request, response) => {
        const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
        const body =
          request.url === "/jwks"
            ? { keys: answers.keys }
            : request.url === "/.well-known/oauth-authorization-server/tenant"
              ? { issuer: answers.issuer || `${at}/tenant`, jwks_uri: `${at}/jwks` }
              : undefined
        response.writeHead(body === undefined ? 404 : 200).end(JSON.stringify(body))
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
        () => Effect.sync(() => void server.close())
      )
      const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tenant`
      const statusWith = Effect.fnUntraced(function* (given: Partial<typeof answers>) {
        Object.assign(answers, { issuer: "", keys: [open] }, given)
        const { url } = yield* startWith([{ name: "corp", issuer, audience }])
        return (yield* configOf(url, yield* sign(key, claimsOf(issuer)))).status
      })
      assert.strictEqual(yield* statusWith({}), 200)
      assert.strictEqual(yield* statusWith({ issuer: "https://evil.test" }), 503)
      const many = Array.from({ length: 10_000 }, (_, index) => ({ ...open, kid: `key ${index}` }))
      assert.strictEqual(yield* statusWith({ keys: [...many, open] }), 503)
      assert.strictEqual(yield* statusWith({ keys: [{ kty: "oct", k: "AAAA", kid: "one" }, open] }), 200)
    }).pipe(Effect.scoped)
  )
})
