import { AgentName, type AgentAuth, HttpUrl } from "@bowline/domain/peer/Agent"
import { Schema } from "effect"
import type { Issue } from "../setting/ConfigProblem.ts"
import { isSet, type Texts } from "../setting/ReadSettings.ts"
import { httpUrl } from "../setting/SettingText.ts"

/** A place where callers let the gateway act as them: its authorization server, and whom the gateway is there. */
const FileAccount = Schema.Struct({
  issuer: Schema.optionalKey(httpUrl),
  authorization_url: Schema.optionalKey(httpUrl),
  token_url: Schema.optionalKey(httpUrl),
  revocation_url: Schema.optionalKey(httpUrl),
  client_id: Schema.String.check(Schema.isBetweenLength(1, 1_024)),
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

/** Authorization servers that cannot be found, secrets that are not there, and agents and servers that name no account of the file. */
export const accountIssues = (
  accounts: FileAccounts,
  named: ReadonlyArray<PlacedAuth>,
  environment: Texts
): ReadonlyArray<Issue> => {
  const names = Object.keys(accounts)
  const expected = `Expected one of accounts${names.length === 0 ? ", of which the file has none" : `: ${names.join(", ")}`}`
  return [
    ...Object.entries(accounts).flatMap(([name, account]) => {
      const { authorization_url, client_secret_env_var: variable, issuer, token_url } = account
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
        ...(variable !== undefined && !isSet(environment[variable])
          ? [issue("client_secret_env_var", `Expected ${variable} to be set`)]
          : [])
      ]
    }),
    ...named.flatMap(({ auth, path }) =>
      auth.type === "account" && !names.includes(auth.account) ? [{ path: [...path, "auth", "account"], expected }] : []
    )
  ]
}
