import * as TextFile from "@bowline/runtime/unstable/prompt/TextFile"
import { Data, Effect, Option } from "effect"
import { existsSync } from "node:fs"
import { basename, resolve } from "node:path"
import { isWithin, type Issue, type Problem } from "../setting/ConfigProblem.ts"
import type { Sources, Texts } from "../setting/ReadSettings.ts"
import { fileVariable } from "../setting/Settings.ts"
import { parseText, substitute } from "./ConfigText.ts"
import { accountIssues, type FileAccounts } from "./AccountSchema.ts"
import { bucketIssues, type FileS3 } from "./BucketSchema.ts"
import { type FileIssuer, type FileOidc, issuerIssues, oidcIssues } from "./IssuerSchema.ts"
import * as FileSchema from "./FileSchema.ts"
import { settingsOf } from "./FileSettings.ts"
import * as PeerTls from "./PeerTls.ts"
import * as PresetSettings from "./PresetSettings.ts"
import { providerIssues } from "./ProviderSettings.ts"

/** What the file sets, and everything that is wrong with it. Without a file nothing is set. */
export interface ConfigFile {
  /** Empty without a file. */
  readonly name: string
  readonly settings: Sources
  /** Whether its providers, models and peers could be read. */
  readonly hasLists: boolean
  readonly providers: ReadonlyArray<FileSchema.FileProvider>
  readonly models: NonNullable<FileSchema.Lists["models"]>
  readonly peerTls: PeerTls.PeerTls
  readonly permissions: FileSchema.Lists["permissions"]
  readonly budgets: FileSchema.Lists["budgets"]
  /** The identity providers whose tokens the gateway takes. */
  readonly issuers: ReadonlyArray<FileIssuer>
  /** With which of them people log in to the console. */
  readonly oidc: FileOidc | undefined
  /** Where callers let the gateway act as them, by name. */
  readonly accounts: FileAccounts
  /** Whether agents and servers may have accounts of their own, which they name. */
  readonly accountsDiscovered: boolean
  /** Where the bytes of files are, if not in the database. */
  readonly s3: FileS3 | undefined
  /** What calls of tools do that must not be done twice, by a glob of their names. */
  readonly effects: NonNullable<NonNullable<FileSchema.Lists["tools"]>["effects"]>
  /** Who is told of all plans. */
  readonly webhooks: NonNullable<FileSchema.Lists["webhooks"]>
  /** `default` in front. */
  readonly presets: ReadonlyArray<PresetSettings.PresetSettings>
  readonly problems: ReadonlyArray<Problem>
  /** The files whose change may change all this, whether they exist or not. */
  readonly files: ReadonlyArray<string>
}

const nothing: ConfigFile = {
  name: "",
  settings: new Map(),
  hasLists: true,
  providers: [],
  models: {},
  peerTls: new Map(),
  permissions: undefined,
  budgets: undefined,
  issuers: [],
  oidc: undefined,
  accounts: {},
  accountsDiscovered: false,
  s3: undefined,
  effects: {},
  webhooks: [],
  presets: PresetSettings.read({}, {}).presets,
  problems: [],
  files: []
}

const names = ["json", "jsonc", "yaml"].map((extension) => `bowline.config.${extension}`)

class Unreadable extends Data.TaggedError("Unreadable")<{ readonly problem: Problem }> {}

const inFile = (file: string, { expected, path }: Issue): Problem => ({ place: { _tag: "File", file, path }, expected })

const readDocument = Effect.fnUntraced(function* (path: string) {
  const text = yield* TextFile.readConfig(path).pipe(
    Effect.mapError((expected) => new Unreadable({ problem: inFile(path, { path: [], expected }) }))
  )
  return yield* Effect.fromResult(parseText(path, text)).pipe(
    Effect.mapError((expected) => new Unreadable({ problem: inFile(basename(path), { path: [], expected }) }))
  )
})

/** Reads a file and collects all its problems. A file that cannot be read or parsed has exactly one. */
const read = Effect.fnUntraced(
  function* (path: string, environment: Texts) {
    const { document, issues: unset } = substitute(yield* readDocument(path), environment)
    const { settings, issues: unwritable } = settingsOf(document)
    const file = basename(path)
    const sources: Sources = new Map(
      settings.map(({ name, path, text }) => [name, { text, place: { _tag: "File", file, path } }])
    )
    const { issues: misshapen, lists } = FileSchema.decode(document)
    const given = Option.getOrElse(lists, (): FileSchema.Lists => ({}))
    const {
      accounts = {},
      accounts_discovered: accountsDiscovered = false,
      auth,
      budgets,
      console: { oidc } = {},
      files: { s3 } = {},
      models = {},
      peers,
      permissions,
      providers = [],
      tools = {},
      webhooks = []
    } = given
    const tls = yield* PeerTls.load(peers?.hosts ?? {}, path)
    const { issues: ofPresets, presets } = PresetSettings.read(given, environment)
    const ofWebhooks = PresetSettings.webhookIssues(webhooks, environment)
    const issuers = auth?.jwt ?? []
    const inLists = [
      ...providerIssues(providers),
      ...issuerIssues(issuers),
      ...oidcIssues(oidc, issuers, environment),
      ...accountIssues(accounts, accountsDiscovered, PresetSettings.placedAuths(presets), environment),
      ...bucketIssues(s3),
      ...tls.issues,
      ...ofPresets,
      ...ofWebhooks
    ]
    // If its variable is not set, a text may be empty. That is one problem, not two.
    const isKnown = ({ path }: Issue) => unset.some((issue) => isWithin(issue.path, path))
    const issues = [...unset, ...[...misshapen, ...unwritable, ...inLists].filter((issue) => !isKnown(issue))]
    return {
      name: file,
      settings: sources,
      hasLists: Option.isSome(lists),
      providers,
      models,
      peerTls: tls.hosts,
      permissions,
      budgets,
      issuers,
      oidc,
      accounts,
      accountsDiscovered,
      s3,
      effects: tools.effects ?? {},
      webhooks,
      presets,
      problems: issues.map((issue) => inFile(file, issue)),
      files: tls.files
    }
  },
  Effect.catchTag("Unreadable", ({ problem }) => Effect.succeed({ ...nothing, problems: [problem] }))
)

/** Reads the file that `BOWLINE_CONFIG` names, else the one in the working directory. */
export const load = (environment: Texts): Effect.Effect<ConfigFile> => {
  const named = environment[fileVariable]?.trim() ?? ""
  const files = (named === "" ? names : [named]).map((name) => resolve(name))
  const [found = named, ...others] = named === "" ? names.filter((name) => existsSync(name)) : []
  if (found === "") return Effect.succeed({ ...nothing, files })
  if (others.length === 0) {
    return Effect.map(read(resolve(found), environment), (file) => ({ ...file, files: [...files, ...file.files] }))
  }
  const problem = inFile([found, ...others].join(", "), {
    path: [],
    expected: `Expected one of them only, or ${fileVariable}`
  })
  return Effect.succeed({ ...nothing, files, problems: [problem] })
}
