import { assert, describe, it } from "@effect/vitest"
import { locations, type AgentCard } from "../../src/card/AgentCard.ts"
import { interfaceOf } from "../../src/card/PeerInterface.ts"

const [standard, older] = locations
const endpoint = "https://peer.test/"
const jsonRpc = (protocolVersion: string, path = "") => ({
  url: `https://peer.test/${path}`,
  protocolBinding: "JSONRPC",
  protocolVersion
})
const grpc = { url: "peer.test:443", protocolBinding: "GRPC", protocolVersion: "1.0" }
const rest = { url: "https://peer.test/rest", transport: "HTTP+JSON" }

describe("the dialect of a card", () => {
  it.each([
    ["in the standard place", {}, standard, "a2a-0.3"],
    ["with bindu's trust, anywhere", { agentTrust: {} }, standard, "bindu"],
    ["in bindu's place", {}, older, "bindu"],
    ["in bindu's place that names a transport of A2A", { preferredTransport: "JSONRPC" }, older, "a2a-0.3"],
    ["in bindu's place that lists interfaces", { supportedInterfaces: [jsonRpc("1.0")] }, older, "a2a-1.0"],
    ["with an interface of 1.0", { supportedInterfaces: [jsonRpc("1.0")] }, standard, "a2a-1.0"],
    ["with one of a later 1.x", { supportedInterfaces: [jsonRpc("1.2")] }, standard, "a2a-1.0"],
    ["with one of 0.3", { supportedInterfaces: [jsonRpc("0.3.0")] }, standard, "a2a-0.3"],
    ["with 0.3 in front of 1.0", { supportedInterfaces: [jsonRpc("0.3"), jsonRpc("1.0")] }, standard, "a2a-0.3"],
    ["with others in front", { supportedInterfaces: [grpc, jsonRpc("2.0"), jsonRpc("1.0")] }, standard, "a2a-1.0"],
    ["with no interface of ours", { supportedInterfaces: [grpc] }, standard, "a2a-1.0"]
  ] as const)("%s", (_, members, location, dialect) => {
    assert.strictEqual(interfaceOf({ skills: [], ...members }, location, endpoint, "auto").dialect, dialect)
  })
})

describe("the URL of a card", () => {
  const urlOf = (members: Omit<AgentCard, "skills">, wanted: "auto" | "a2a-1.0" | "a2a-0.3", at = endpoint) =>
    interfaceOf({ skills: [], ...members }, standard, at, wanted).url
  const two = { supportedInterfaces: [jsonRpc("1.0", "one"), jsonRpc("0.3", "old")] }

  it("is that of the interface that is spoken", () => {
    assert.strictEqual(urlOf(two, "auto"), "https://peer.test/one")
    assert.strictEqual(urlOf(two, "a2a-0.3"), "https://peer.test/old")
    assert.strictEqual(urlOf({ url: "https://peer.test/a2a" }, "auto"), "https://peer.test/a2a")
    assert.strictEqual(urlOf({ url: "https://peer.test/a2a" }, "a2a-1.0"), endpoint)
  })

  it("is that of JSON-RPC where another transport is preferred", () => {
    const card = { url: "https://peer.test/rest", preferredTransport: "HTTP+JSON" }
    const rpc = { url: "https://peer.test/rpc", transport: "JSONRPC" }
    assert.strictEqual(urlOf({ ...card, additionalInterfaces: [rest, rpc] }, "auto"), "https://peer.test/rpc")
    assert.strictEqual(urlOf(card, "auto"), endpoint)
  })

  it("is not used when it has another origin, or when the endpoint names a path or a query of its own", () => {
    assert.strictEqual(urlOf({ url: "https://elsewhere.test/a2a" }, "auto"), endpoint)
    assert.strictEqual(urlOf({ url: "http://peer.test/a2a" }, "auto"), endpoint)
    assert.strictEqual(urlOf({ url: "nonsense" }, "auto"), endpoint)
    assert.strictEqual(urlOf(two, "auto", "https://peer.test/mine"), "https://peer.test/mine")
    assert.strictEqual(urlOf(two, "auto", "https://peer.test/?code=KEY"), "https://peer.test/?code=KEY")
  })
})
