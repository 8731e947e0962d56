import * as A2aPeerClient from "@bowline/a2a/peer/A2aPeerClient"
import { Agent } from "@bowline/domain/peer/Agent"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpClient } from "effect/http"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"
import * as Outbound from "../../src/egress/Outbound.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, start } from "../http/RunningGateway.ts"
import { mutual, pem, terminate } from "./MutualTls.ts"

interface Given {
  readonly tls?: object
  readonly host?: (port: number) => string
  /** Of the peer. */
  readonly certificate?: string
}

/** A peer behind TLS, and a file of the configuration with its host. */
const set = Effect.fnUntraced(function* (given: Given) {
  const { certificate = "localhost", host = (port) => `localhost:${port}`, tls } = given
  const peer = yield* ScriptedPeer.serve({ acts: [completes()] })
  const { port } = yield* terminate(peer.url, certificate)
  const names = ["client", "client-key", "authority", "stranger"]
  const files = Object.fromEntries(names.map((name) => [`${name}.pem`, pem(name)]))
  const hosts = tls === undefined ? {} : { [host(port)]: { tls } }
  const folder = yield* folderOf({ ...files, "gateway.json": JSON.stringify({ peers: { hosts } }) })
  return { endpoint: `https://localhost:${port}/`, environment: { BOWLINE_CONFIG: join(folder, "gateway.json") } }
})

const script: Script = ({ messages }) =>
  messages.some(({ role }) => role === "tool") ? [say("done")] : [callTool("bob_ask", { input: "?" })]

describe("a peer behind mutual TLS", () => {
  it.live.each([
    ["its host and port", { tls: mutual }],
    ["its host alone", { tls: mutual, host: () => "LOCALHOST" }],
    ["PEM in variables", { tls: { cert: "$CERT", key: "${KEY}", ca: "authority.pem" } }]
  ] as const)("is reached with the certificate that is configured for %s", ([, given]) =>
    Effect.gen(function* () {
      const { endpoint, environment } = yield* set(given)
      const variables = { CERT: pem("client"), KEY: pem("client-key") }
      const { url } = yield* start(script, { ...environment, ...variables })
      const agents = [{ name: "bob", endpoint, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
      const { text } = yield* post(`${url}/plan`, { question: "?", agents }, { accept: "text/event-stream" })
      assert.match(text, /^event: task\.finished\ndata: .*"state":"completed"/m)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each([
    ["no configuration", {}, "SELF_SIGNED_CERT_IN_CHAIN"],
    ["one of another port", { tls: mutual, host: () => "localhost:1" }, "SELF_SIGNED_CERT_IN_CHAIN"],
    ["another authority", { tls: { ...mutual, ca: "stranger.pem" } }, "SELF_SIGNED_CERT_IN_CHAIN"],
    ["the certificate of another host", { tls: mutual, certificate: "elsewhere" }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    // Node turns such a client away without a word.
    ["no certificate of the gateway", { tls: { ca: "authority.pem" } }, "UND_ERR_SOCKET"]
  ] as const)("is unreachable with %s, and says so", ([, given, code]) =>
    Effect.gen(function* () {
      const { endpoint, environment } = yield* set(given)
      const { egress, peerTls } = yield* fromEnvironment(environment, false)
      const context = yield* Layer.build(Layer.provide(A2aPeerClient.layer, Outbound.layerWithin(egress, peerTls)))
      const agent = yield* Schema.decodeUnknownEffect(Agent)({ name: "bob", endpoint, dialect: "a2a-0.3" })
      const { reason } = yield* Effect.flip(Context.get(context, PeerClient).discover(agent))
      assert.strictEqual(reason._tag, "unreachable")
      assert.include(reason.message, code)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is reached with what its file says when the connection is opened", () =>
    Effect.gen(function* () {
      const { endpoint, environment } = yield* set({ tls: { ...mutual, ca: "stranger.pem" } })
      const { egress, peerTls, reread } = yield* fromEnvironment(environment, false)
      const context = yield* Layer.build(Outbound.layerWithin(egress, peerTls))
      const request = Context.get(context, HttpClient.HttpClient).get(endpoint)
      assert.include(String((yield* Effect.flip(request)).cause), "self-signed certificate in certificate chain")
      const { BOWLINE_CONFIG: file } = environment
      writeFileSync(file, readFileSync(file, "utf8").replace("stranger.pem", "authority.pem"))
      const { apply } = yield* reread
      apply()
      yield* request
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.effect.each([
    [{ cert: "client.pem" }, "Expected both a cert and its key, or neither"],
    [{ cert: "client.pem", key: "none.pem" }, "Expected PEM, or a file that has it"],
    [{ cert: "client.pem", key: "client.pem" }, "Expected PEM of certificates, and of the key of the first one"],
    [{ cert: "authority.pem", key: "client-key.pem" }, "Expected PEM of certificates, and of the key of the first one"],
    [{ ca: "client-key.pem" }, "Expected PEM of certificates, and of the key of the first one"]
  ] as const)("cannot be configured with %j", ([tls, expected]) =>
    Effect.gen(function* () {
      const { environment } = yield* set({ tls, host: () => "peer.example:443" })
      const { problems } = yield* Effect.flip(fromEnvironment(environment, false))
      const lines = problems.map(formatProblem)
      assert.match(lines.join(), /^gateway\.json peers\.hosts\["peer\.example:443"\]\.tls(\.key)?: /)
      assert.include(lines.join(), expected)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
