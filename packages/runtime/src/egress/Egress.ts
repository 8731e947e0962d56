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

/** Why the gateway does not connect: a rule denies it, or the kind of address does. */
export type Objection = "denied" | Exclude<AddressClass, "public">

/** The gateway does not connect to a host. Nothing was sent. The caller does not learn the address, which belongs to the gateway's network. */
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

/** Why a host is denied before its addresses are known; none if it is not. */
export const objectToHost = ({ deny }: EgressPolicy, host: string): Option.Option<Objection> =>
  deny.some((rule) => matchesHost(rule, host)) ? Option.some("denied") : Option.none()

/**
 * Why an address of the name `host` is denied; none if it is not. A rule that allows a name does not allow link-local and metadata
 * addresses: these need a rule with the address itself.
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
