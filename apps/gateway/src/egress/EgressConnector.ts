import {
  EgressRefusal,
  objectTo,
  objectToHost,
  type EgressPolicy,
  type Objection
} from "@bowline/runtime/egress/Egress"
import { buildConnector } from "@effect/platform-node/Undici"
import { Option, Redacted } from "effect"
import { lookup as resolve } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type { PeerTls, TlsIdentity } from "../file/PeerTls.ts"

const refused = (host: string, objection: Option.Option<Objection>): Option.Option<EgressRefusal> =>
  Option.map(objection, (objection) => new EgressRefusal({ host, objection }))

/** Gives the addresses of a name that may be connected to. The connection goes to one of these: nobody resolves the name again. */
const guarded =
  (policy: EgressPolicy, lookup: LookupFunction): LookupFunction =>
  (host, options, callback) => {
    const named = refused(host, objectToHost(policy, host))
    if (Option.isSome(named)) return callback(named.value, [])
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, [])
      const addresses = typeof found === "string" ? [{ address: found, family: isIP(found) }] : found
      const judged = addresses.map((entry) => ({
        entry,
        refusal: refused(host, objectTo(policy, host, entry.address))
      }))
      const [first, ...others] = judged.flatMap(({ entry, refusal }) => (Option.isNone(refusal) ? [entry] : []))
      const [refusal] = judged.flatMap(({ refusal }) => Option.toArray(refusal))
      if (first === undefined && refusal !== undefined) return callback(refusal, [])
      if (first === undefined || options.all === true)
        return callback(null, first === undefined ? [] : [first, ...others])
      return callback(null, first.address, first.family)
    })
  }

/** The options of a connection that shows and believes what is configured. The name of the host is verified in any case. */
const secured = ({ ca, cert, key }: TlsIdentity) => ({
  ...(ca === undefined ? {} : { ca }),
  ...(cert === undefined ? {} : { cert }),
  ...(key === undefined ? {} : { key: Redacted.value(key) })
})

/**
 * Opens connections for Undici to what the policy allows: a name by the addresses that it has now, an address by itself. A
 * connection that is refused fails with an `EgressRefusal`. Hosts in `tls` get what is configured for them, by host and port
 * before host alone. `lookup` stands in for the resolver of the system.
 */
export const make = (
  policy: EgressPolicy,
  tls: PeerTls = new Map(),
  lookup: LookupFunction = resolve
): buildConnector.connector => {
  const options = { lookup: guarded(policy, lookup) }
  const plain = buildConnector(options)
  // One for each: sessions of TLS are kept by connector, and are nobody else's.
  const own = new Map(
    Array.from(tls, ([host, identity]) => [host, buildConnector({ ...options, ...secured(identity) })])
  )
  const connectorOf = (hostname: string, port: string) => {
    const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
    return own.get(`${host}:${port === "" ? "443" : port}`) ?? own.get(host) ?? plain
  }
  return (options, callback) => {
    const { hostname, port, protocol } = options
    // Node does not look an address up.
    const literal = isIP(hostname) === 0 ? Option.none() : refused(hostname, objectTo(policy, hostname, hostname))
    if (Option.isSome(literal)) return queueMicrotask(() => callback(literal.value, null))
    const connect = protocol === "https:" ? connectorOf(hostname, port) : plain
    connect(options, (error, socket) => {
      if (error !== null) return callback(error, null)
      const { remoteAddress } = socket
      // Whatever led there: where the connection ended counts.
      const reached =
        remoteAddress === undefined ? Option.none() : refused(hostname, objectTo(policy, hostname, remoteAddress))
      if (Option.isNone(reached)) return callback(null, socket)
      socket.destroy()
      return callback(reached.value, null)
    })
  }
}
