import { Data, Effect, Result } from "effect"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { basename, resolve } from "node:path"
import { formatPath, type Problem } from "../setting/ConfigPath.ts"
import { parseText } from "./ConfigText.ts"
import * as FileSchema from "./FileSchema.ts"
import { type FileSetting, settingsOf } from "./FileSettings.ts"
import * as PeerTls from "./PeerTls.ts"
import { problemsOf } from "./ProviderSettings.ts"
import { substitute } from "./Variables.ts"

/** What the file says, and all that is wrong with it. Without a file it says nothing. */
export interface ConfigFile {
  readonly settings: ReadonlyArray<FileSetting>
  readonly providers: ReadonlyArray<FileSchema.FileProvider>
  readonly models: NonNullable<FileSchema.File["models"]>
  readonly peerTls: PeerTls.PeerTls
  /** Names a place in the file. */
  readonly place: (path: Problem["path"]) => string
  readonly problems: ReadonlyArray<string>
}

const nothing: ConfigFile = {
  settings: [],
  providers: [],
  models: {},
  peerTls: new Map(),
  place: formatPath,
  problems: []
}

const names = ["json", "jsonc", "yaml"].map((extension) => `bowline.config.${extension}`)

class Unreadable extends Data.TaggedError("Unreadable") {}

/** A file that cannot be read, or not be understood, has one problem; one that can has all that it has. */
const read = Effect.fnUntraced(function* (path: string, variable: (name: string) => string | undefined) {
  const file = basename(path)
  const place = (path: Problem["path"]) => (path.length === 0 ? file : `${file} ${formatPath(path)}`)
  const say = ({ expected, path }: Problem) => `${place(path)}: ${expected}`
  const text = yield* Effect.tryPromise({ try: () => readFile(path, "utf8"), catch: () => new Unreadable() }).pipe(
    Effect.mapError(() => [`${path}: The file cannot be read`])
  )
  const parsed = parseText(path, text)
  if (Result.isFailure(parsed)) return yield* Effect.fail([say({ path: [], expected: parsed.failure })])
  const { document, problems } = substitute(parsed.success, variable)
  const { settings, problems: unusable } = settingsOf(document)
  // Without its variable a text may be empty: that is one problem.
  const isTold = ({ path }: Problem) => problems.some((problem) => path.every((key, at) => problem.path[at] === key))
  const unwritable = unusable.filter((problem) => !isTold(problem))
  const decoded = FileSchema.decode(document)
  if (Result.isFailure(decoded)) {
    return { ...nothing, settings, place, problems: [...problems, ...decoded.failure, ...unwritable].map(say) }
  }
  const { models = {}, peers, providers = [] } = decoded.success
  const tls = yield* PeerTls.load(peers?.hosts ?? {}, path)
  return {
    settings,
    providers,
    models,
    peerTls: tls.hosts,
    place,
    problems: [...problems, ...unwritable, ...problemsOf(providers), ...tls.problems].map(say)
  }
})

/** Reads the file that `BOWLINE_CONFIG` names, else the one in the working directory. */
export const load = (variable: (name: string) => string | undefined): Effect.Effect<ConfigFile> => {
  const named = variable("BOWLINE_CONFIG") ?? ""
  const [found = named, ...others] = named === "" ? names.filter((name) => existsSync(name)) : []
  if (found === "") return Effect.succeed(nothing)
  if (others.length > 0) {
    const problem = `${[found, ...others].join(", ")}: Expected one of them only, or BOWLINE_CONFIG`
    return Effect.succeed({ ...nothing, problems: [problem] })
  }
  return read(resolve(found), variable).pipe(Effect.catch((problems) => Effect.succeed({ ...nothing, problems })))
}
