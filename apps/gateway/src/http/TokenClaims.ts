import { CallerName } from "@bowline/domain/caller/CallerName"
import { Result } from "effect"
import type { ClaimValue, FileIssuer } from "../config/file/IssuerSchema.ts"

/** What a token says, after its signature was verified. */
export type Claims = Readonly<Record<string, unknown>>

/** Whom a token speaks for. */
export interface TokenCaller {
  readonly name: CallerName
  readonly isAdmin: boolean
  readonly groups: ReadonlyArray<string>
}

/** Why a token that is good names nobody: `invalid` is the token's fault, `forbidden` is what `required` says. */
export interface ClaimFault {
  readonly _tag: "invalid" | "forbidden"
  readonly detail: string
}

/** A caller's name is in every row and line of the log. */
const maxName = 256
const maxGroups = 256

/** A claim by its name, or else by a path such as `realm_access.roles`. */
const claimOf = (claims: Claims, name: string): unknown => {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const key of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = Object.getOwnPropertyDescriptor(value, key)?.value
  }
  return value
}

/** A claim that is a list matches if it has the value. */
const matches = (claim: unknown, value: ClaimValue): boolean =>
  Array.isArray(claim) ? claim.includes(value) : claim === value

const groupsOf = (claim: unknown): ReadonlyArray<string> => {
  const all: ReadonlyArray<unknown> = Array.isArray(claim) ? claim : [claim]
  return all.filter((group): group is string => typeof group === "string" && group !== "").slice(0, maxGroups)
}

const invalid = (detail: string): Result.Result<never, ClaimFault> => Result.fail({ _tag: "invalid", detail })

/** `<name of the issuer>:` and the template, with its claims filled in. What stands between two claims is in neither: else other claims could make the same name. */
const nameOf = ({ caller = "{sub}", name }: FileIssuer, claims: Claims): Result.Result<CallerName, ClaimFault> => {
  const missing: Array<string> = []
  const between = caller.split(/\{[^{}]+\}/).slice(1, -1)
  const filled = caller.replaceAll(/\{([^{}]+)\}/g, (_, claim: string) => {
    const value = claimOf(claims, claim)
    if (typeof value === "string" && value !== "" && !between.some((text) => value.includes(text))) return value
    if (typeof value === "number") return String(value)
    missing.push(claim)
    return ""
  })
  if (missing.length > 0) return invalid(`The token has no ${missing.join(", no ")} that names a caller`)
  const whole = `${name}:${filled}`
  return whole.length > maxName || !/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$/u.test(whole)
    ? invalid(`The token names a caller with more than ${maxName} characters, or with control characters`)
    : Result.succeed(CallerName.make(whole))
}

/** Whom a token of this issuer speaks for. */
export const callerOf = (issuer: FileIssuer, claims: Claims): Result.Result<TokenCaller, ClaimFault> => {
  const { admin, groups, required = {} } = issuer
  const lacking = Object.entries(required).find(([claim, value]) => !matches(claimOf(claims, claim), value))
  if (lacking !== undefined) {
    return Result.fail({ _tag: "forbidden", detail: `The token lacks what auth.jwt requires of its ${lacking[0]}` })
  }
  return Result.map(nameOf(issuer, claims), (name) => ({
    name,
    isAdmin: admin !== undefined && matches(claimOf(claims, admin.claim), admin.equals),
    groups: groups === undefined ? [] : groupsOf(claimOf(claims, groups.claim))
  }))
}
