import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createPrivateKey, createPublicKey, verify } from "node:crypto"
import { post, send, start } from "./RunningGateway.ts"

const seed = Buffer.alloc(32).toString("base64")
const identity = { BOWLINE_DID_SEED: seed, BOWLINE_DID_AUTHOR: "ops@example.com", BOWLINE_DID_NAME: "gateway" }
const pkcs8 = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32)])
const publicKey = createPublicKey(createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }))

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

/** 64 bytes, read without the library that wrote them. */
const fromBase58 = (text: string): Buffer => {
  const number = Array.from(text).reduce((sum, digit) => sum * 58n + BigInt(alphabet.indexOf(digit)), 0n)
  return Buffer.from(number.toString(16).padStart(128, "0"), "hex")
}

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann" }

describe("/.well-known/did.json", () => {
  it.live("shows the key of the gateway's DID to everybody", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...identity, ...callers })
      const { body, headers, status } = yield* send(`${url}/.well-known/did.json`)
      assert.deepStrictEqual([status, headers.get("content-type")], [200, "application/did+json"])
      const did = "did:bindu:ops_at_example_com:gateway:139e3940-e64b-5491-7220-88d9a0d74162"
      assert.deepStrictEqual(body, {
        "@context": ["https://www.w3.org/ns/did/v1", "https://getbindu.com/ns/v1"],
        id: did,
        authentication: [
          {
            id: `${did}#key-1`,
            type: "Ed25519VerificationKey2020",
            controller: did,
            publicKeyBase58: "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS"
          }
        ]
      })
    })
  )

  it.live("is not found on a gateway without an identity", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], callers)
      const { body, headers, status } = yield* send(`${url}/.well-known/did.json`)
      assert.deepStrictEqual([status, body["code"]], [404, "not_found"])
      assert.strictEqual(headers.get("content-type"), "application/problem+json")
    })
  )

  it.live("is in the contract", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const { body } = yield* send(`${url}/openapi.json`)
      const paths = body["paths"] as Readonly<
        Record<string, { get: { responses: Record<string, { content: object }> } }>
      >
      const { responses } = paths["/.well-known/did.json"]?.get ?? { responses: {} }
      assert.deepStrictEqual(Object.keys(responses["200"]?.content ?? {}), ["application/did+json"])
      assert.property(responses, "404")
    })
  )
})

describe("a request of did_signed", () => {
  const agent = (url: string) => ({
    name: "bob",
    endpoint: `${url}/`,
    dialect: "a2a-0.3",
    skills: [{ id: "ask" }],
    auth: { type: "did_signed" }
  })
  const script = [[callTool("bob_ask", { input: "?" })], [say("ok")]]

  it.live("reaches the peer signed with the key of the gateway", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] }).pipe(Effect.provide(LoopbackNetwork.layer))
      const { url } = yield* start(script, identity)
      const plan = yield* post(`${url}/plan`, { question: "?", agents: [agent(peer.url)] })
      assert.strictEqual(plan.body["state"], "completed")
      const [request] = yield* peer.requests.all
      const { "x-did": did, "x-did-timestamp": timestamp, "x-did-signature": signature = "" } = request?.headers ?? {}
      assert.closeTo(Number(timestamp), Date.now() / 1_000, 60)
      // The body is ASCII, which JSON.stringify escapes as Python does.
      const signed = `{"body": ${JSON.stringify(request?.body)}, "did": "${did}", "timestamp": ${timestamp}}`
      assert.isTrue(verify(null, Buffer.from(signed), publicKey, fromBase58(signature)))
    })
  )

  it.live("is not made by a gateway without an identity, which names the variable", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] }).pipe(Effect.provide(LoopbackNetwork.layer))
      const { url, provider } = yield* start(script)
      yield* post(`${url}/plan`, { question: "?", agents: [agent(peer.url)] })
      assert.deepStrictEqual(yield* peer.requests.all, [])
      assert.include(
        (yield* provider.requests.all).at(-1)?.body,
        "BOWLINE_DID_SEED (identity.seed in the file) is not set"
      )
    })
  )
})

describe("a token endpoint", () => {
  it.live("is asked within the egress rules, like the peer itself", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] }).pipe(Effect.provide(LoopbackNetwork.layer))
      const { url, provider } = yield* start([[callTool("bob_ask", { input: "?" })], [say("ok")]], {
        BOWLINE_ENV_ALLOW: "CLIENT_SECRET",
        CLIENT_SECRET: "secret"
      })
      const auth = {
        type: "oauth2_client_credentials",
        token_url: "http://169.254.169.254/token",
        client_id: "us",
        client_secret_env_var: "CLIENT_SECRET"
      }
      const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }], auth }]
      const plan = yield* post(`${url}/plan`, { question: "?", agents }, { accept: "text/event-stream" })
      assert.include(plan.text, `"code":"egress_denied"`)
      assert.include((yield* provider.requests.all).at(-1)?.body, "169.254.169.254")
      assert.deepStrictEqual(yield* peer.requests.all, [])
    })
  )
})
