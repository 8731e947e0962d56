import { isLoopback } from "../config/setting/ReadSettings.ts"
import { checkResourceAllowed } from "@modelcontextprotocol/client"
import type { AuthorizationServerMetadata, OAuthProtectedResourceMetadata } from "@modelcontextprotocol/client"
import { Schema } from "effect"
import { createHash } from "node:crypto"

/** What the server of an account has said that the configuration does not name. */
const Found = Schema.Struct({ issuer: Schema.String, resource: Schema.String, scopes: Schema.Array(Schema.String) })

/** The client that the gateway is at an authorization server that it has found. */
export const FoundClient = Schema.Struct({
  client_id: Schema.String.check(Schema.isMaxLength(1_024)),
  client_secret: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_024))),
  isSecretInBody: Schema.optionalKey(Schema.Boolean)
})
export type FoundClient = typeof FoundClient.Type

/** What is known of a way to an authorization server and back: one that was found is the same all the way, and so is the client that the gateway is there. */
export const foundAt = { found: Schema.optional(Found), client: Schema.optional(FoundClient) }

/** The longest URL that is the name of an account. */
const maxUrl = 1_000

/** What is asked for at most, and how long all of it may be together. */
const maxScopes = 64
const maxScopeText = 1_000

/** What an account is called that the configuration does not name: the URL of its server, without parameters, which may be secrets. */
export const accountOf = (url: string): string => {
  const { origin, pathname } = new URL(url)
  return `${origin}${pathname}`
}

/** Why a URL cannot have an account of its own, if so. */
export const refuseUrl = (url: string): string | undefined =>
  accountOf(url).length > maxUrl
    ? `Expected a URL of at most ${maxUrl} characters, since its account is called so`
    : undefined

const hostOf = (url: string): string => new URL(url).hostname.replaceAll(/[[\]]/g, "")

/** Whether a place that another one names can be asked for tokens: it has TLS, or both are on this machine. */
const isSafe = (url: string, namedBy: string): boolean => {
  if (!URL.canParse(url)) return false
  const { password, protocol, username } = new URL(url)
  if (username !== "" || password !== "") return false
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostOf(url)) && isLoopback(hostOf(namedBy)))
}

/** By what the gateway's own places for an authorization server are known: an answer that comes to another one is of another server. */
export const placeOf = (issuer: string): string => createHash("sha256").update(issuer).digest("base64url").slice(0, 22)

/** What a server says of itself, read: its authorization server, and the resource that it is; or what is wrong. */
export const readResource = (
  url: string,
  { authorization_servers: [issuer] = [], resource }: OAuthProtectedResourceMetadata
): { readonly issuer: string; readonly resource: string } | string => {
  // A token for another resource would be good there.
  if (!checkResourceAllowed({ requestedResource: accountOf(url), configuredResource: resource })) {
    return `It says that it is the resource ${resource}`
  }
  if (issuer === undefined) return "It names no authorization server"
  if (issuer.length > maxUrl || !isSafe(issuer, url)) return "Its authorization server is not at an https URL"
  return { issuer, resource }
}

/** Where its tokens are revoked (RFC 7009), if it says so. */
export const revocationOf = (server: AuthorizationServerMetadata): string | undefined =>
  "revocation_endpoint" in server && typeof server.revocation_endpoint === "string"
    ? server.revocation_endpoint
    : undefined

/** What is wrong with an authorization server, if something is. */
export const refuseServer = (issuer: string, server: AuthorizationServerMetadata): string | undefined => {
  const { authorization_endpoint, registration_endpoint, token_endpoint } = server
  const revocation_endpoint = revocationOf(server)
  const named = { authorization_endpoint, registration_endpoint, revocation_endpoint, token_endpoint }
  for (const [name, url] of Object.entries(named)) {
    if (url !== undefined && !isSafe(url, issuer)) return `Its ${name} is not an https URL`
  }
  // Without it a code that is stolen on its way can be redeemed.
  return server.code_challenge_methods_supported?.includes("S256") === true
    ? undefined
    : "It does not say that it takes PKCE with S256 (code_challenge_methods_supported)"
}

/** What to ask for: what the refusal names, else what the server says that it has; and that the token can be renewed, if that is to be had. */
export const scopesOf = (
  challenged: string | undefined,
  { scopes_supported: own = [] }: OAuthProtectedResourceMetadata,
  { scopes_supported: known = [] }: AuthorizationServerMetadata
): ReadonlyArray<string> | undefined => {
  const asked = challenged === undefined ? own : challenged.split(" ").filter((one) => one !== "")
  const scopes = asked.length > 0 && known.includes("offline_access") ? new Set([...asked, "offline_access"]) : asked
  const all = Array.from(new Set(scopes))
  const isGood = all.every((one) => /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/.test(one))
  return isGood && all.length <= maxScopes && all.join(" ").length <= maxScopeText ? all : undefined
}
