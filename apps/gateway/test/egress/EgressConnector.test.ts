import { Agent } from "@effect/platform-node/Undici"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { EgressRefusal, type EgressPolicy } from "@bowline/runtime/unstable/egress/Egress"
import * as EgressRule from "@bowline/runtime/unstable/egress/EgressRule"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { text } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Option, Predicate } from "effect"
import { HttpClient } from "effect/http"
import type { LookupFunction } from "node:net"
import * as EgressConnector from "../../src/egress/EgressConnector.ts"

const closed: EgressPolicy = { allow: [], deny: [], allowsLocal: false }
const local: EgressPolicy = { ...closed, allowsLocal: true }

/** A resolver that gives these answers, one after the other, and how often it was asked. */
const resolver = (...answers: ReadonlyArray<ReadonlyArray<string>>) => {
  const asked: Array<string> = []
  const lookup: LookupFunction = (host, options, callback) => {
    const addresses = (answers[asked.push(host) - 1] ?? []).map((address) => ({
      address,
      family: address.includes(":") ? 6 : 4
    }))
    if (options.all === true) callback(null, addresses)
    else callback(null, addresses[0]?.address ?? "", addresses[0]?.family)
  }
  return { asked, lookup }
}

/** A client whose connections are opened by the policy. */
const clientOf = Effect.fnUntraced(function* (policy: EgressPolicy, lookup?: LookupFunction) {
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ connect: EgressConnector.make(policy, undefined, lookup) })),
    (agent) => Effect.promise(() => agent.destroy())
  )
  const context = yield* Layer.build(
    Layer.provide(Layer.fresh(NodeHttpClient.layerUndiciNoDispatcher), Layer.succeed(NodeHttpClient.Dispatcher, agent))
  )
  return Context.get(context, HttpClient.HttpClient)
})

const host = Effect.flatMap(Network, (network) => network.serve(() => Effect.succeed(text(200, "here"))))

const get = (client: HttpClient.HttpClient, url: string) => Effect.flatMap(client.get(url), (response) => response.text)

const objection = (client: HttpClient.HttpClient, url: string) =>
  Effect.map(Effect.flip(client.get(url)), ({ reason }) =>
    reason.cause instanceof EgressRefusal
      ? reason.cause.objection
      : Predicate.hasProperty(reason.cause, "code") && reason.cause.code
  )

describe("a connection", () => {
  it.live("goes to a name at its allowed addresses, and at no others", () =>
    Effect.gen(function* () {
      const { url, requests } = yield* host
      const named = url.replace("127.0.0.1", "peer.example")
      // The first one is nobody's: it is not even tried.
      const mixed = resolver(["169.254.169.254", "127.0.0.1"])
      const client = yield* clientOf(local, mixed.lookup)
      assert.strictEqual(yield* get(client, named), "here")
      const metadata = resolver(["169.254.169.254", "fd00:ec2::254"])
      assert.strictEqual(yield* objection(yield* clientOf(local, metadata.lookup), named), "link-local")
      for (const address of ["127.0.0.1", "::ffff:127.0.0.1", "::1"]) {
        const client = yield* clientOf(closed, resolver([address]).lookup)
        assert.strictEqual(yield* objection(client, named), "loopback", address)
      }
      assert.strictEqual((yield* requests.all).length, 1)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is judged each time by the one DNS answer that it is then made with", () =>
    Effect.gen(function* () {
      const { url, requests } = yield* host
      const named = url.replace("127.0.0.1", "peer.example")
      // A public address for whoever looks first, and the gateway's own machine for whoever connects.
      const rebinding = resolver(["192.0.2.1"], ["127.0.0.1"], ["127.0.0.1"])
      const client = yield* clientOf(closed, rebinding.lookup)
      assert.strictEqual(yield* objection(client, named), "reserved")
      assert.strictEqual(rebinding.asked.length, 1)
      assert.strictEqual(yield* objection(client, named), "loopback")
      assert.strictEqual(rebinding.asked.length, 2)
      assert.strictEqual((yield* requests.all).length, 0)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("to an address in the URL is judged too, in every spelling", () =>
    Effect.gen(function* () {
      const { url, requests } = yield* host
      const client = yield* clientOf(closed)
      for (const host of ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]"]) {
        assert.strictEqual(yield* objection(client, url.replace("127.0.0.1", host)), "loopback", host)
      }
      assert.strictEqual(yield* objection(client, url.replace("127.0.0.1", "0.0.0.0")), "reserved")
      assert.strictEqual((yield* requests.all).length, 0)
      assert.strictEqual(yield* get(yield* clientOf(local), url), "here")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("to a name that is allowed does not open the address behind it to others", () =>
    Effect.gen(function* () {
      const { url, requests } = yield* host
      const client = yield* clientOf(
        { ...closed, allow: [{ _tag: "Host", pattern: "peer.example" }] },
        resolver(["127.0.0.1"]).lookup
      )
      assert.strictEqual(yield* get(client, url.replace("127.0.0.1", "peer.example")), "here")
      assert.strictEqual(yield* objection(client, url), "loopback")
      assert.strictEqual((yield* requests.all).length, 1)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is closed when it has reached another address than intended", () =>
    Effect.gen(function* () {
      const { url, requests } = yield* host
      // Most systems take this address for their own loopback address.
      const allow = Option.toArray(EgressRule.parse("0.0.0.0"))
      const client = yield* clientOf({ ...closed, allow })
      assert.strictEqual(yield* objection(client, url.replace("127.0.0.1", "0.0.0.0")), "loopback")
      assert.strictEqual((yield* requests.all).length, 0)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("to a name that is denied is refused before it is resolved", () =>
    Effect.gen(function* () {
      const names = resolver(["127.0.0.1"])
      const policy: EgressPolicy = { ...local, deny: [{ _tag: "Host", pattern: "*.example" }] }
      const client = yield* clientOf(policy, names.lookup)
      assert.strictEqual(yield* objection(client, "http://peer.example/"), "denied")
      assert.deepStrictEqual(names.asked, [])
    }).pipe(Effect.scoped)
  )

  it.live("to a name that does not exist fails as such", () =>
    Effect.gen(function* () {
      const lookup: LookupFunction = (_host, _options, callback) =>
        callback(Object.assign(new Error("not there"), { code: "ENOTFOUND" }), [])
      assert.strictEqual(yield* objection(yield* clientOf(closed, lookup), "http://peer.example/"), "ENOTFOUND")
    }).pipe(Effect.scoped)
  )
})
