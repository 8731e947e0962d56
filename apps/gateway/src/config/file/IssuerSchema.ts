import { Schema } from "effect"
import type { Issue } from "../setting/ConfigProblem.ts"
import { isSet, type Texts } from "../setting/ReadSettings.ts"
import { duration, httpUrl, matching } from "../setting/SettingText.ts"

/** What a claim is compared with. */
const ClaimValue = Schema.Union([Schema.String, Schema.Finite, Schema.Boolean]).annotate({
  message: "Expected text, a number, true or false"
})
export type ClaimValue = typeof ClaimValue.Type

const Claim = Schema.String.check(Schema.isBetweenLength(1, 256))

/** Signatures with a public key alone: whoever knows an HMAC's key can sign. */
export const algorithms = ["RS256", "PS256", "ES256", "EdDSA"] as const

const Audience = Schema.String.check(Schema.isBetweenLength(1, 512))

/** An identity provider whose tokens the gateway takes. */
export const FileIssuer = Schema.Struct({
  name: matching(/^[A-Za-z0-9-]{1,32}$/, "Expected a name of 1 to 32 letters, digits and -"),
  issuer: httpUrl,
  audience: Schema.Union([Audience, Schema.Array(Audience).check(Schema.isMinLength(1))]).annotate({
    message: "Expected an audience, or a list of them"
  }),
  jwks_url: Schema.optionalKey(httpUrl),
  algorithms: Schema.optionalKey(Schema.Array(Schema.Literals(algorithms)).check(Schema.isMinLength(1))),
  caller: Schema.optionalKey(
    matching(
      /^[^{}]*\{[^{}]+\}([^{}]+\{[^{}]+\})*[^{}]*$/,
      "Expected a template such as {sub} or {tenant}/{sub}: claims in braces, with something between two of them"
    )
  ),
  admin: Schema.optionalKey(Schema.Struct({ claim: Claim, equals: ClaimValue })),
  groups: Schema.optionalKey(Schema.Struct({ claim: Claim })),
  required: Schema.optionalKey(Schema.Record(Claim, ClaimValue)),
  leeway: Schema.optionalKey(duration("0s"))
})
export type FileIssuer = typeof FileIssuer.Type

/** Who else may come in. */
export const Auth = Schema.Struct({
  jwt: Schema.Array(FileIssuer).check(Schema.isMinLength(1, { message: "Expected at least one identity provider" }))
})

/** They would stand in front of other entries of `permissions`. */
const reserved = ["key", "group"]

/** Names that would be confused with others, and providers that stand there twice. */
export const issuerIssues = (issuers: ReadonlyArray<FileIssuer>): ReadonlyArray<Issue> =>
  issuers.flatMap(({ issuer, name }, index) => {
    const before = issuers.slice(0, index)
    const issue = (key: string, expected: string): Issue => ({ path: ["auth", "jwt", index, key], expected })
    return [
      ...(reserved.includes(name) ? [issue("name", `Expected another name than ${reserved.join(" and ")}`)] : []),
      ...(before.some((other) => other.name === name) ? [issue("name", "Expected each name once")] : []),
      ...(before.some((other) => other.issuer === issuer) ? [issue("issuer", "Expected each issuer once")] : [])
    ]
  })

/** With which identity provider people log in to the console. */
export const FileOidc = Schema.Struct({
  issuer: Schema.String,
  client_id: Schema.String.check(Schema.isBetweenLength(1, 512)),
  client_secret_env_var: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^\w+$/)))
})
export type FileOidc = typeof FileOidc.Type

/** The identity provider of `auth.jwt` that this names, by its name or its URL. */
export const issuerOf = ({ issuer }: FileOidc, issuers: ReadonlyArray<FileIssuer>): FileIssuer | undefined =>
  issuers.find((one) => one.name === issuer || one.issuer === issuer)

/** A provider that `auth.jwt` does not have, and a secret that is not there. */
export const oidcIssues = (
  oidc: FileOidc | undefined,
  issuers: ReadonlyArray<FileIssuer>,
  environment: Texts
): ReadonlyArray<Issue> => {
  if (oidc === undefined) return []
  const issue = (key: string, expected: string): Issue => ({ path: ["console", "oidc", key], expected })
  const { client_secret_env_var: variable } = oidc
  const names = issuers.map(({ name }) => name).join(", ")
  return [
    ...(issuerOf(oidc, issuers) === undefined
      ? [issue("issuer", `Expected one of auth.jwt${names === "" ? ", which has none" : `: ${names}`}`)]
      : []),
    ...(variable !== undefined && !isSet(environment[variable])
      ? [issue("client_secret_env_var", `Expected ${variable} to be set`)]
      : [])
  ]
}
