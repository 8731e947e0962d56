import { Result, Schema, SchemaIssue } from "effect"
import type { Problem } from "../setting/ConfigPath.ts"
import { fields } from "./FileSettings.ts"
import { duration, type Parse, url } from "../setting/Setting.ts"

const text = (parse: Parse<unknown>) =>
  Schema.String.check(
    Schema.makeFilter((value) =>
      Result.match(parse(value), { onFailure: (expected) => expected, onSuccess: () => undefined })
    )
  )

const pattern = (pattern: RegExp, message: string) => Schema.String.check(Schema.isPattern(pattern, { message }))

const Timer = text(duration("1ms"))
const Tokens = (minimum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum: 100_000_000 }))
const Dollars = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))
const Secret = pattern(/^[\x21-\x7e]+$/, "Expected printable ASCII")

/** What is said of a model. */
export const FileModel = Schema.Struct({
  context_window: Schema.optionalKey(Tokens(100)),
  output_limit: Schema.optionalKey(Tokens(1)),
  reasoning: Schema.optionalKey(Schema.Boolean),
  price: Schema.optionalKey(Schema.Struct({ input: Dollars, cached: Schema.optionalKey(Dollars), output: Dollars }))
})
export type FileModel = typeof FileModel.Type

export const FileProvider = Schema.Struct({
  name: pattern(/^[a-z][a-z0-9_-]{0,31}$/, "Expected a name such as openai or my-server"),
  wire: Schema.optionalKey(Schema.Literals(["openai-chat", "openai-responses", "anthropic-messages"])),
  base_url: Schema.optionalKey(text(url(["http:", "https:"], "Expected an http or https URL"))),
  headers: Schema.optionalKey(
    Schema.Record(
      pattern(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "Expected the name of a header"),
      pattern(/^[\x20-\x7e]*$/, "Expected printable ASCII")
    )
  ),
  api_keys: Schema.optionalKey(Schema.Array(Secret)),
  models: Schema.optionalKey(Schema.Record(Schema.String, FileModel)),
  timeouts: Schema.optionalKey(
    Schema.Struct({
      first_token: Schema.optionalKey(Timer),
      idle: Schema.optionalKey(Timer),
      attempt: Schema.optionalKey(Timer)
    })
  )
})
export type FileProvider = typeof FileProvider.Type

/** PEM, or the name of a file that has it. */
const Pem = Schema.optionalKey(Schema.String)

const FilePeerHost = Schema.Struct({ tls: Schema.Struct({ cert: Pem, key: Pem, ca: Pem }) })
export type FilePeerHost = typeof FilePeerHost.Type

const HostName = pattern(/^(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/, "Expected a host, or host:port")

/** Everything that the file may say. */
const File = Schema.Struct({
  ...fields,
  providers: Schema.optionalKey(Schema.Array(FileProvider)),
  models: Schema.optionalKey(Schema.Record(Schema.String, FileModel)),
  peers: Schema.optionalKey(Schema.Struct({ hosts: Schema.Record(HostName, FilePeerHost) }))
})
export type File = typeof File.Type

const decodeFile = Schema.decodeUnknownResult(File, { errors: "all", onExcessProperty: "error" })

// No input is reported in an issue: it may be a secret.
const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "UnexpectedKey") return "There is no such key"
    if (issue._tag === "MissingKey") return "Expected it to be there"
    return SchemaIssue.defaultLeafHook(issue)
  }
})

const keyOf = (segment: PropertyKey | { readonly key: PropertyKey }): PropertyKey =>
  typeof segment === "object" ? segment.key : segment

/** Reads a document as the file, or tells everything that is wrong with it. */
export const decode = (document: unknown): Result.Result<File, ReadonlyArray<Problem>> =>
  Result.mapError(decodeFile(document), ({ issue }) =>
    format(issue).issues.map(({ message, path = [] }) => ({ path: path.map(keyOf), expected: message }))
  )
