import { Sampling } from "@bowline/domain/plan/PlanRequest"
import { ToolEffect } from "@bowline/domain/tool/TaskState"
import { Webhooks } from "@bowline/domain/unstable/plan/Webhook"
import { type Option, Record, Result, Schema, Struct } from "effect"
import { type Issue, toIssues } from "../setting/ConfigProblem.ts"
import { duration, httpUrl, matching } from "../setting/SettingText.ts"
import { Budgets, Permissions } from "./CallerSchema.ts"
import { FileAccounts } from "./AccountSchema.ts"
import { FileS3 } from "./BucketSchema.ts"
import { Auth, FileOidc } from "./IssuerSchema.ts"
import { keys } from "./FileSettings.ts"
import { catalog, Presets } from "./PresetSchema.ts"

const Tokens = (minimum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum: 100_000_000 }))
const Dollars = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))
const Timer = Schema.optionalKey(duration("1ms"))

/** What the file may set of a model. */
const FileModel = Schema.Struct({
  context_window: Schema.optionalKey(Tokens(100)),
  output_limit: Schema.optionalKey(Tokens(1)),
  input: Schema.optionalKey(Schema.Array(Schema.Literals(["text", "image", "pdf"]))),
  max_image_bytes: Schema.optionalKey(Tokens(1)),
  max_pdf_pages: Schema.optionalKey(Tokens(1)),
  reasoning: Schema.optionalKey(Schema.Boolean),
  structured_output: Schema.optionalKey(Schema.Boolean),
  refuses: Schema.optionalKey(Schema.Array(Schema.Literals(Struct.keys(Struct.omit(Sampling.fields, ["max_tokens"]))))),
  price: Schema.optionalKey(Schema.Struct({ input: Dollars, cached: Schema.optionalKey(Dollars), output: Dollars }))
})
export type FileModel = typeof FileModel.Type

const FileProvider = Schema.Struct({
  name: matching(/^[a-z][a-z0-9_-]{0,31}$/, "Expected a name such as openai or my-server"),
  wire: Schema.optionalKey(Schema.Literals(["openai-chat", "openai-responses", "anthropic-messages"])),
  base_url: Schema.optionalKey(httpUrl),
  headers: Schema.optionalKey(
    Schema.Record(
      matching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "Expected the name of a header"),
      Schema.RedactedFromValue(matching(/^[\x20-\x7e]*$/, "Expected printable ASCII"))
    )
  ),
  api_keys: Schema.optionalKey(
    Schema.Array(Schema.RedactedFromValue(matching(/^[\x21-\x7e]+$/, "Expected printable ASCII")))
  ),
  models: Schema.optionalKey(Schema.Record(Schema.String, FileModel)),
  timeouts: Schema.optionalKey(Schema.Struct({ first_token: Timer, idle: Timer, attempt: Timer }))
})
export type FileProvider = typeof FileProvider.Type

/** PEM, or the name of a file with PEM. */
const Pem = Schema.optionalKey(Schema.String)

const FilePeerHost = Schema.Struct({ tls: Schema.Struct({ cert: Pem, key: Pem, ca: Pem }) })
export type FilePeerHost = typeof FilePeerHost.Type

/** By a glob of tools' names. */
const Effects = Schema.Record(Schema.String.check(Schema.isBetweenLength(1, 256)), ToolEffect)

const HostName = matching(/^(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/, "Expected a host, or host:port")

/** What the file may contain beside settings. */
export const Lists = Schema.Struct({
  providers: Schema.optionalKey(Schema.Array(FileProvider)),
  models: Schema.optionalKey(Schema.Record(Schema.String, FileModel)),
  peers: Schema.optionalKey(Schema.Struct({ hosts: Schema.Record(HostName, FilePeerHost) })),
  ...catalog,
  presets: Schema.optionalKey(Presets),
  webhooks: Schema.optionalKey(Webhooks),
  tools: Schema.optionalKey(Schema.Struct({ effects: Schema.optionalKey(Effects) })),
  auth: Schema.optionalKey(Auth),
  accounts: Schema.optionalKey(FileAccounts),
  accounts_discovered: Schema.optionalKey(Schema.Boolean),
  console: Schema.optionalKey(Schema.Struct({ oidc: Schema.optionalKey(FileOidc) })),
  files: Schema.optionalKey(Schema.Struct({ s3: Schema.optionalKey(FileS3) })),
  permissions: Schema.optionalKey(Permissions),
  budgets: Schema.optionalKey(Budgets)
})
export type Lists = typeof Lists.Type

/** Sections of settings that have a list besides. */
const tools = Schema.optionalKey(Schema.Struct({ ...keys.tools, effects: Schema.optionalKey(Effects) }))
const console = Schema.optionalKey(Schema.Struct({ ...keys.console, oidc: Schema.optionalKey(FileOidc) }))
const files = Schema.optionalKey(Schema.Struct({ ...keys.files, s3: Schema.optionalKey(FileS3) }))
const sections = Record.map(keys, (fields) => Schema.optionalKey(Schema.Struct(fields)))

const File = Schema.Struct({ ...sections, ...Lists.fields, tools, console, files })

const decodeFile = Schema.decodeUnknownResult(File, { errors: "all", onExcessProperty: "error" })

const decodeLists = Schema.decodeUnknownOption(Lists)

/** Reads the lists of a document, if they are right, and reports everything that is wrong with it. `FileSettings` reads the settings. */
export const decode = (
  document: unknown
): { readonly lists: Option.Option<Lists>; readonly issues: ReadonlyArray<Issue> } => {
  const file = decodeFile(document)
  return { lists: decodeLists(document), issues: Result.isSuccess(file) ? [] : toIssues(file.failure) }
}
