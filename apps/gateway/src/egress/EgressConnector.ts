import {
  EgressRefusal,
  objectTo,
  objectToHost,
  type EgressPolicy,
  type Objection
} from "@bowline/runtime/unstable/egress/Egress"
import { buildConnector } from "@effect/platform-node/Undici"
import { Option, Redacted } from "effect"
import { lookup as resolve } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type { PeerTls, TlsIdentity } from "../config/file/PeerTls.ts"

const refused = (host: string, objection: Option.Option<Objection>): Option.Option<EgressRefusal> =>
  Option.map(objection, (objection) => new EgressRefusal({ host, objection }))

/** Resolves a name to the addresses that the policy allows. The connection uses one of them: nothing resolves the name again. */
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

/** The options of a connection with the configured certificate and authorities. The host name is always verified. */
const secured = ({ ca, cert, key }: TlsIdentity) => ({
  ...(ca === undefined ? {} : { ca }),
  ...(cert === undefined ? {} : { cert }),
  ...(key === undefined ? {} : { key: Redacted.value(key) })
})

const noTls: PeerTls = new Map()

/**
 * Opens connections for Undici, as far as the policy allows: to a name by the addresses that it has now, to an address
 * directly. A connection that is not allowed fails with an `EgressRefusal`. For TLS, an entry of `tls` for host and port wins
 * over one for the host alone; `tls` is asked for each connection. `lookup` replaces the system's resolver.
 */
export const make = (
  policy: EgressPolicy,
  tls: () => PeerTls = () => noTls,
  lookup: LookupFunction = resolve
): buildConnector.connector => {
  const options = { lookup: guarded(policy, lookup) }
  const plain = buildConnector(options)
  // One connector for each: a connector caches TLS sessions, which must not be shared between identities.
  const connectorsOf = (identities: PeerTls) => ({
    identities,
    byHost: new Map(
      Array.from(identities, ([host, identity]) => [host, buildConnector({ ...options, ...secured(identity) })])
    )
  })
  let own = connectorsOf(tls())
  const connectorOf = (hostname: string, port: string) => {
    const identities = tls()
    if (identities !== own.identities) own = connectorsOf(identities)
    const { byHost } = own
    const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
    return byHost.get(`${host}:${port === "" ? "443" : port}`) ?? byHost.get(host) ?? plain
  }
  return (options, callback) => {
    const { hostname, port, protocol } = options
    // Node.js calls no lookup for an address.
    const literal = isIP(hostname) === 0 ? Option.none() : refused(hostname, objectTo(policy, hostname, hostname))
    if (Option.isSome(literal)) return queueMicrotask(() => callback(literal.value, null))
    const connect = protocol === "https:" ? connectorOf(hostname, port) : plain
    connect(options, (error, socket) => {
      if (error !== null) return callback(error, null)
      const { remoteAddress } = socket
      // However the connection got there, its real address decides.
      const reached =
        remoteAddress === undefined ? Option.none() : refused(hostname, objectTo(policy, hostname, remoteAddress))
      if (Option.isNone(reached)) return callback(null, socket)
      socket.destroy()
      return callback(reached.value, null)
    })
  }
}
