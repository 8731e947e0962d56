import type { EntryRules } from "../config/GatewayConfig.ts"
import { spellHost } from "../config/setting/HttpSettings.ts"
import { isLoopback } from "../config/setting/ReadSettings.ts"

/** What a request says of where it goes, and where it comes from. */
export interface Arrival {
  /** As in the first line of the request. */
  readonly target: string
  /** Every `Host`. */
  readonly hosts: ReadonlyArray<string>
  readonly origin: string | undefined
  readonly site: string | undefined
}

const asksByAddress = /^\/(health|ready)(\?|$)/
const isForEverybody =
  /^\/(health|ready|\.well-known\/(?:(agent-card|did)\.json|oauth-protected-resource(\/mcp)?)|a2a\/agents\/[^/?]+\/\.well-known\/agent-card\.json)(\?|$)/

/** `host`, `host:port`, `[::1]:port`: the host in one spelling, if it is one. */
const hostOf = (authority: string): string | undefined => {
  const [, host] = /^(\[[\da-f:.]+\]|[^\s:/?#@[\]\\]+)(?::\d{0,5})?$/i.exec(authority) ?? []
  return host === undefined ? undefined : spellHost(host)
}

/** The authority of a target that is a whole URL. HTTP says that it counts, and not `Host`. */
const targetAuthority = (target: string): string | undefined => /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(target)?.[1]

/** Tells whether a page that came from the gateway has this origin. */
const isOwn = (origin: string, authority: string, { publicHosts }: EntryRules): boolean => {
  const page = URL.parse(origin)
  if (page === null || !/^https?:$/.test(page.protocol) || page.origin !== origin.toLowerCase()) return false
  // The scheme may differ: a proxy in front of the gateway speaks TLS. A port that the scheme implies is left out of both.
  return (
    publicHosts.includes(spellHost(page.hostname)) || URL.parse(`${page.protocol}//${authority}`)?.host === page.host
  )
}

/** Tells whether an authority such as that of `Host` is a loopback name. */
export const isLocal = (authority: string): boolean => {
  const host = hostOf(authority)
  return host !== undefined && isLoopback(host)
}

/** Tells whether a page of the gateway itself has sent a request. A browser says so by `Sec-Fetch-Site`, an older one by `Origin` alone. */
export const isOwnPage = ({ hosts, origin, site }: Arrival, rules: EntryRules): boolean =>
  site === undefined
    ? origin !== undefined && hosts.every((authority) => isOwn(origin, authority, rules))
    : site === "same-origin"

/**
 * Decides which requests are refused before any route sees them: for their `hosts`, of which there must be one, for that `host`, or for
 * their `origin`. A page of somebody else that a browser shows may send requests to
 * any address, and may have its own name resolved to the gateway's address; what it cannot do is to choose `Host`, `Origin` and
 * `Sec-Fetch-Site`.
 */
export const refusalOf = (
  { hosts, origin, site, target }: Arrival,
  rules: EntryRules
): "hosts" | "host" | "origin" | undefined => {
  const inTarget = targetAuthority(target)
  const authorities = inTarget === undefined ? hosts : [...hosts, inTarget]
  if (!asksByAddress.test(target)) {
    if (hosts.length !== 1) return "hosts"
    const isRight = (authority: string) => {
      const host = hostOf(authority)
      if (host === undefined) return false
      if (rules.anyHost && rules.publicHosts.length === 0) return true
      return isLoopback(host) || rules.publicHosts.includes(host)
    }
    if (!authorities.every(isRight)) return "host"
  }
  if (origin === undefined || isForEverybody.test(target) || rules.corsOrigins.includes(origin)) return undefined
  const isCrossSite = site === "cross-site"
  return !isCrossSite && authorities.every((authority) => isOwn(origin, authority, rules)) ? undefined : "origin"
}
