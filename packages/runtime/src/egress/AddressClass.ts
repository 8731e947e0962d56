import { Option } from "effect"
import ipaddr from "ipaddr.js"
import { isIP } from "node:net"

export type IpAddress = ipaddr.IPv4 | ipaddr.IPv6

/** An address, and how many of its first bits count. */
export type Network = readonly [address: IpAddress, bits: number]

/** Who can be behind an address: anybody on the internet, or only somebody near this machine. */
export type AddressClass =
  | "public"
  | "loopback"
  | "private"
  | "link-local"
  | "metadata"
  | "carrier-grade NAT"
  | "multicast"
  | "reserved"

const classes: { readonly [range: string]: AddressClass } = {
  unicast: "public",
  loopback: "loopback",
  private: "private",
  uniqueLocal: "private",
  linkLocal: "link-local",
  carrierGradeNat: "carrier-grade NAT",
  multicast: "multicast"
}

/** The services by which clouds give credentials to their machines, where they are not link-local. */
const metadata: ReadonlyArray<Network> = [
  ipaddr.parseCIDR("100.100.100.200/32"),
  ipaddr.parseCIDR("168.63.129.16/32"),
  ipaddr.parseCIDR("fd00:ec2::/32"),
  ipaddr.parseCIDR("fd20:ce::254/128")
]

/** The prefix of RFC 6052: a gateway of the network passes such an address on to the IPv4 address in it. */
const nat64 = ipaddr.parseCIDR("64:ff9b::/96")

/** The part of IPv6 from which public addresses are assigned. */
const globalUnicast = ipaddr.parseCIDR("2000::/3")

export const contains = ([address, bits]: Network, member: IpAddress): boolean =>
  address.kind() === member.kind() && member.match(address, bits)

/** The address that a connection really reaches: an IPv4 address inside an IPv6 address counts as the IPv4 address. */
const undressed = (address: IpAddress): IpAddress =>
  address.kind() === "ipv6" && (address.range() === "ipv4Mapped" || contains(nat64, address))
    ? new ipaddr.IPv4(address.toByteArray().slice(12))
    : address

/** The library confuses `::127.0.0.1` with `::ffff:127.0.0.1`, so the address goes through a `URL`, which writes it without dots. */
const parse = (text: string): IpAddress =>
  ipaddr.parse(isIP(text) === 6 ? new URL(`http://[${text.replace(/%.*/, "")}]`).hostname.slice(1, -1) : text)

/** An address as a resolver or a socket writes it. Short forms such as `127.1` or `0x7f000001` are not addresses. */
export const parseAddress = (text: string): Option.Option<IpAddress> =>
  isIP(text) === 0 ? Option.none() : Option.some(undressed(parse(text)))

/** `10.0.0.0/8`, `fd00::/8`, or a single address. */
export const parseNetwork = (text: string): Option.Option<Network> => {
  const [, base = text, length] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  if (isIP(base) === 0) return Option.none()
  const address = parse(base)
  const inner = undressed(address)
  const size = address.toByteArray().length * 8
  const bits = length === undefined ? size : Number(length)
  // For IPv4 inside IPv6, only the bits behind the prefix count.
  const prefix = size - inner.toByteArray().length * 8
  return bits > size || bits < prefix ? Option.none() : Option.some([inner, bits - prefix])
}

export const classOf = (address: IpAddress): AddressClass => {
  if (metadata.some((network) => contains(network, address))) return "metadata"
  const known = classes[address.range()] ?? "reserved"
  const isGivenOut = address.kind() === "ipv4" || contains(globalUnicast, address)
  return known === "public" && !isGivenOut ? "reserved" : known
}
