import { Option } from "effect"
import { contains, parseNetwork, type IpAddress, type Network } from "./AddressClass.ts"

/** A host by its name, or all below it; or a network. */
export type EgressRule =
  | { readonly _tag: "Host"; readonly pattern: string }
  | { readonly _tag: "Network"; readonly network: Network }

/** A host name never ends in a number: such a text is a malformed address. */
const hostPattern = /^(?:\*|(?:\*\.)?(?:[a-z0-9_-]+\.)*[a-z][a-z0-9-]*\.?)$/i

const withoutDot = (host: string): string => host.toLowerCase().replace(/\.$/, "")

/** `peer.example`, `*.example` for all names below it, `*` for every host, `10.0.0.0/8`, `::1`. */
export const parse = (text: string): Option.Option<EgressRule> =>
  hostPattern.test(text)
    ? Option.some({ _tag: "Host", pattern: withoutDot(text) })
    : Option.map(parseNetwork(text), (network) => ({ _tag: "Network", network }))

/** Whether a `Host` rule matches this name, in any case and with or without a dot at its end. A `Network` rule matches no name. */
export const matchesHost = (rule: EgressRule, host: string): boolean => {
  if (rule._tag === "Network") return false
  const name = withoutDot(host)
  const { pattern } = rule
  return pattern === "*" || (pattern.startsWith("*.") ? name.endsWith(pattern.slice(1)) : name === pattern)
}

/** Whether a `Network` rule contains this address. A `Host` rule matches no address. */
export const matchesAddress = (rule: EgressRule, address: IpAddress): boolean =>
  rule._tag === "Network" && contains(rule.network, address)
