import { Data, Option } from "effect"
import { classOf, parseAddress, type AddressClass } from "./AddressClass.ts"
import { matchesAddress, matchesHost, type EgressRule } from "./EgressRule.ts"

/** What callers may make the gateway connect to. */
export interface EgressPolicy {
  readonly allow: ReadonlyArray<EgressRule>
  /** Wins over `allow`. */
  readonly deny: ReadonlyArray<EgressRule>
  /** Whether loopback and private addresses need no rule. */
  readonly allowsLocal: boolean
}

/** Why not: a rule says so, or what the address is. */
export type Objection = "denied" | Exclude<AddressClass, "public">

/** The gateway does not connect to a host. Nothing was sent. The address itself is not told: it is the network's own. */
export class EgressRefusal extends Data.TaggedError("EgressRefusal")<{
  readonly host: string
  readonly objection: Objection
}> {
  readonly code = "ERR_BOWLINE_EGRESS"
  override get message(): string {
    const why =
      this.objection === "denied"
        ? "BOWLINE_EGRESS_DENY (egress.deny in the file) names it"
        : `its address is ${this.objection}; an operator may allow it with BOWLINE_EGRESS_ALLOW (egress.allow in the file)`
    return `The gateway does not connect to ${this.host}: ${why}`
  }
}

/** What there is against a host before its addresses are known. */
export const objectToHost = ({ deny }: EgressPolicy, host: string): Option.Option<Objection> =>
  deny.some((rule) => matchesHost(rule, host)) ? Option.some("denied") : Option.none()

/**
 * What there is against an address that the name `host` stands for. A name that is allowed does not open link-local and
 * metadata addresses: those take a rule with the address itself.
 */
export const objectTo = (policy: EgressPolicy, host: string, address: string): Option.Option<Objection> => {
  const parsed = Option.getOrUndefined(parseAddress(address))
  if (parsed === undefined) return Option.some("reserved")
  const { allow, allowsLocal, deny } = policy
  const isNamed = (rules: ReadonlyArray<EgressRule>) => rules.some((rule) => matchesAddress(rule, parsed))
  if (isNamed(deny) || Option.isSome(objectToHost(policy, host))) return Option.some("denied")
  const found = classOf(parsed)
  if (found === "public" || isNamed(allow)) return Option.none()
  const isLocal = found === "loopback" || found === "private"
  const isDelicate = found === "link-local" || found === "metadata"
  if ((isLocal && allowsLocal) || (!isDelicate && allow.some((rule) => matchesHost(rule, host)))) return Option.none()
  return Option.some(found)
}
