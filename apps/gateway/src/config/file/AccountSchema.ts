import { AgentName, type AgentAuth, HttpUrl } from "@bowline/domain/peer/Agent"
import { Schema } from "effect"
import type { Issue } from "../setting/ConfigProblem.ts"
import { isLoopback, isSet, type Texts } from "../setting/ReadSettings.ts"
import { httpUrl } from "../setting/SettingText.ts"

/** A place where callers let the gateway act as them: its authorization server, and whom the gateway is there. */
const FileAccount = Schema.Struct({
  issuer: Schema.optionalKey(httpUrl),
  authorization_url: Schema.optionalKey(httpUrl),
  token_url: Schema.optionalKey(httpUrl),
  revocation_url: Schema.optionalKey(httpUrl),
  client_id: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 1_024))),
  client_metadata_url: Schema.optionalKey(httpUrl),
  client_secret_env_var: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^\w+$/))),
  scopes: Schema.Array(
    Schema.String.check(Schema.isPattern(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/, { message: "Expected one scope" }))
  ),
  resource: Schema.optionalKey(HttpUrl)
})
export type FileAccount = typeof FileAccount.Type

/** The accounts, by their names. */
export const FileAccounts = Schema.Record(AgentName, FileAccount)
export type FileAccounts = typeof FileAccounts.Type

/** What an agent or an MCP server of a preset has for `auth`, and where. */
export interface PlacedAuth {
  readonly auth: AgentAuth
  readonly path: ReadonlyArray<PropertyKey>
}

/** Authorization servers take a client by the URL of what it says of itself if that is https and has a path; on the same machine some do without TLS. */
const isMetadataUrl = (text: string): boolean => {
  const { hostname, pathname, protocol, username } = new URL(text)
  return pathname !== "/" && username === "" && (protocol === "https:" || isLoopback(hostname.replaceAll(/[[\]]/g, "")))
}

/** Authorization servers that cannot be found, clients and secrets that are not there, and agents and servers that name no account of the file, unless theirs are discovered. */
export const accountIssues = (
  accounts: FileAccounts,
  isDiscovered: boolean,
  named: ReadonlyArray<PlacedAuth>,
  environment: Texts
): ReadonlyArray<Issue> => {
  const names = Object.keys(accounts)
  const expected = `Expected one of accounts${names.length === 0 ? ", of which the file has none" : `: ${names.join(", ")}`}`
  return [
    ...Object.entries(accounts).flatMap(([name, account]) => {
      const { authorization_url, client_id, client_metadata_url, issuer, token_url } = account
      const { client_secret_env_var: variable } = account
      const issue = (key: string, what: string): Issue => ({ path: ["accounts", name, key], expected: what })
      const isNamed = authorization_url !== undefined && token_url !== undefined
      const isHalf = (authorization_url === undefined) !== (token_url === undefined)
      return [
        ...(issuer === undefined && !isNamed
          ? [issue("issuer", "Expected it, or authorization_url and token_url")]
          : []),
        ...(issuer !== undefined && isHalf
          ? [issue("issuer", "Expected it alone, or with authorization_url and token_url")]
          : []),
        ...((client_id === undefined) === (client_metadata_url === undefined)
          ? [issue("client_id", "Expected either it or client_metadata_url")]
          : []),
        ...(client_metadata_url !== undefined && !isMetadataUrl(client_metadata_url)
          ? [issue("client_metadata_url", "Expected an https URL with a path")]
          : []),
        ...(client_metadata_url !== undefined && variable !== undefined
          ? [issue("client_secret_env_var", "Expected none: a client that a URL describes has no secret")]
          : []),
        ...(variable !== undefined && !isSet(environment[variable])
          ? [issue("client_secret_env_var", `Expected ${variable} to be set`)]
          : [])
      ]
    }),
    ...named.flatMap(({ auth, path }) =>
      auth.type === "account" && !isDiscovered && !names.includes(auth.account)
        ? [{ path: [...path, "auth", "account"], expected }]
        : []
    )
  ]
}
