import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { EgressRefusal, objectTo, objectToHost, type EgressPolicy } from "../../src/egress/Egress.ts"
import * as EgressRule from "../../src/egress/EgressRule.ts"

interface Given {
  readonly allow?: string
  readonly deny?: string
  readonly allowsLocal?: boolean
}

const rules = (text: string | undefined) =>
  text === undefined ? [] : text.split(",").map((rule) => Option.getOrThrow(EgressRule.parse(rule)))

const policyOf = ({ allow, allowsLocal = false, deny }: Given): EgressPolicy => ({
  allow: rules(allow),
  deny: rules(deny),
  allowsLocal
})

const objection = (given: Given, address: string, host = "peer.example") =>
  Option.getOrElse(objectTo(policyOf(given), host, address), () => "none")

/** As undici gets the host of a URL. */
const hostOf = (url: string) => new URL(url).hostname.replace(/^\[(.*)\]$/, "$1")

describe("an address", () => {
  it.each([
    ["1.1.1.1", "none"],
    ["2606:4700:4700::1111", "none"],
    ["127.0.0.1", "loopback"],
    ["127.255.255.254", "loopback"],
    ["::1", "loopback"],
    ["10.0.0.1", "private"],
    ["172.16.0.1", "private"],
    ["172.31.255.255", "private"],
    ["172.32.0.1", "none"],
    ["192.168.1.1", "private"],
    ["fc00::1", "private"],
    ["fdff::1", "private"],
    ["169.254.1.1", "link-local"],
    ["169.254.169.254", "link-local"],
    ["fe80::1", "link-local"],
    ["fe80::1%eth0", "link-local"],
    ["febf::1", "link-local"],
    ["100.100.100.200", "metadata"],
    ["168.63.129.16", "metadata"],
    ["fd00:ec2::254", "metadata"],
    ["fd20:ce::254", "metadata"],
    ["100.64.0.1", "carrier-grade NAT"],
    ["100.127.255.255", "carrier-grade NAT"],
    ["100.128.0.1", "none"],
    ["224.0.0.1", "multicast"],
    ["239.255.255.255", "multicast"],
    ["ff02::1", "multicast"],
    ["255.255.255.255", "reserved"],
    ["240.0.0.1", "reserved"],
    ["0.0.0.0", "reserved"],
    ["0.1.2.3", "reserved"],
    ["192.0.0.1", "reserved"],
    ["192.0.2.1", "reserved"],
    ["198.51.100.1", "reserved"],
    ["203.0.113.1", "reserved"],
    ["198.18.0.1", "reserved"],
    ["192.88.99.1", "reserved"],
    ["::", "reserved"],
    ["::127.0.0.1", "reserved"],
    ["fec0::1", "reserved"],
    ["2001:db8::1", "reserved"],
    ["2001::1", "reserved"],
    ["2002:7f00:1::", "reserved"],
    ["64:ff9b:1::7f00:1", "reserved"],
    ["::ffff:0:127.0.0.1", "reserved"],
    ["100::1", "reserved"],
    ["4000::1", "reserved"],
    ["::ffff:127.0.0.1", "loopback"],
    ["::ffff:7f00:1", "loopback"],
    ["::ffff:a9fe:a9fe", "link-local"],
    ["::ffff:1.1.1.1", "none"],
    ["64:ff9b::10.0.0.1", "private"],
    ["64:ff9b::a9fe:a9fe", "link-local"],
    ["64:ff9b::1.1.1.1", "none"],
    ["2130706433", "reserved"],
    ["127.1", "reserved"],
    ["peer.example", "reserved"]
  ])("%s is judged as what it is: %s", (address, expected) => {
    assert.strictEqual(objection({}, address), expected)
  })

  it.each([
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:0:0:1]/"
  ])("is loopback however %s is written", (url) => {
    assert.strictEqual(objection({}, hostOf(url)), "loopback")
  })
})

const Bits = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 32 - 1 }))

it.prop(
  "an address of IPv4 is judged the same in every form that connects as IPv4",
  { bits: Bits, allowsLocal: Schema.Boolean },
  ({ allowsLocal, bits }) => {
    const bytes = [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255)
    const plain = bytes.join(".")
    const hex = `${(bits >>> 16).toString(16)}:${(bits & 65_535).toString(16)}`
    const expected = objection({ allowsLocal }, plain)
    for (const dressed of [`::ffff:${plain}`, `::ffff:${hex}`, `64:ff9b::${hex}`, hostOf(`http://${bits}/`)]) {
      assert.strictEqual(objection({ allowsLocal }, dressed), expected, dressed)
    }
    assert.strictEqual(objection({ allowsLocal, deny: `${plain}/32` }, `::ffff:${hex}`), "denied")
  }
)

describe("a policy", () => {
  it.each([
    ["127.0.0.1", "none"],
    ["fd12::1", "none"],
    ["169.254.169.254", "link-local"],
    ["fd00:ec2::254", "metadata"],
    ["100.64.0.1", "carrier-grade NAT"],
    ["0.0.0.0", "reserved"]
  ])("that is local lets %s through as %s", (address, expected) => {
    assert.strictEqual(objection({ allowsLocal: true }, address), expected)
  })

  it.each([
    [{ allow: "10.0.0.0/8" }, "10.1.2.3", "none"],
    [{ allow: "10.0.0.0/8" }, "::ffff:10.1.2.3", "none"],
    [{ allow: "10.0.0.0/8" }, "192.168.0.1", "private"],
    [{ allow: "10.0.0.1" }, "10.0.0.2", "private"],
    [{ allow: "fd12::/16" }, "fd12::1", "none"],
    [{ allow: "peer.example" }, "10.0.0.1", "none"],
    [{ allow: "PEER.example." }, "10.0.0.1", "none"],
    [{ allow: "*.example" }, "10.0.0.1", "none"],
    [{ allow: "*" }, "10.0.0.1", "none"],
    [{ allow: "example" }, "10.0.0.1", "private"],
    [{ allow: "*.peer.example" }, "10.0.0.1", "private"],
    [{ allow: "*" }, "169.254.169.254", "link-local"],
    [{ allow: "peer.example" }, "fd00:ec2::254", "metadata"],
    [{ allow: "169.254.169.254" }, "169.254.169.254", "none"],
    [{ allow: "10.0.0.0/8", deny: "10.0.0.1" }, "10.0.0.1", "denied"],
    [{ allow: "peer.example", deny: "*.example" }, "10.0.0.1", "denied"],
    [{ deny: "1.1.1.0/24" }, "1.1.1.1", "denied"],
    [{ deny: "1.1.1.0/24" }, "::ffff:1.1.1.1", "denied"],
    [{ deny: "1.1.1.0/24" }, "64:ff9b::1.1.1.1", "denied"],
    [{ deny: "::ffff:1.1.1.0/120" }, "1.1.1.1", "denied"],
    [{ deny: "::/0" }, "1.1.1.1", "none"],
    [{ deny: "127.0.0.1", allowsLocal: true }, "127.0.0.1", "denied"],
    [{ deny: "peer.example" }, "1.1.1.1", "denied"]
  ])("of %j judges %s: %s", (given, address, expected) => {
    assert.strictEqual(objection(given, address), expected)
  })

  it("denies a name before it has an address", () => {
    const policy = policyOf({ deny: "peer.example", allow: "*" })
    assert.deepStrictEqual(objectToHost(policy, "Peer.Example."), Option.some("denied"))
    assert.deepStrictEqual(objectToHost(policy, "other.example"), Option.none())
  })

  it.each([
    "",
    "10.0.0.300",
    "10.0.0.0/33",
    "::1/129",
    "10.0.0.0/8/8",
    "*.",
    "a*b",
    "http://a",
    "a b",
    "127.1",
    "a:80"
  ])("accepts no rule %j", (text) => {
    assert.isTrue(Option.isNone(EgressRule.parse(text)))
  })
})

describe("a refusal", () => {
  it("names the host and the setting that allows it, and not the address", () => {
    const { message } = new EgressRefusal({ host: "intranet.example", objection: "private" })
    assert.include(message, "intranet.example")
    assert.include(message, "private")
    assert.include(message, "BOWLINE_EGRESS_ALLOW (egress.allow in the file)")
    assert.include(
      new EgressRefusal({ host: "a", objection: "denied" }).message,
      "BOWLINE_EGRESS_DENY (egress.deny in the file)"
    )
  })
})
