import { execFile } from "node:child_process"
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { createRequire } from "node:module"
import { homedir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { promisify } from "node:util"

/** A browser of the machine, or ours with the libraries and fonts that it needs. */
export interface Chromium {
  readonly executablePath: string
  readonly env?: Readonly<Record<string, string>>
}

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const ofMachine = (): string | undefined =>
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .flatMap((folder) => ["chromium", "google-chrome"].map((name) => join(folder, name)))
    .find(isExecutable)

/** The folder of the package: only its `build` can be resolved. */
const packageFolder = () => join(dirname(createRequire(import.meta.url).resolve("@sparticuz/chromium")), "..")

/** Says where its fonts are: the file of the package looks for them in the temporary folder. Every machine shows the same fonts. */
const fontsOf = (folder: string) => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(folder, "fonts")}</dir>
  <cachedir>${join(folder, "fonts-cache")}</cachedir>
</fontconfig>
`

/** Chromium out of the npm package, unpacked once for all checkouts of this user. The package itself unpacks into the temporary folder, with files that are half there meanwhile. */
const unpack = async (): Promise<string> => {
  const { version } = JSON.parse(readFileSync(join(packageFolder(), "package.json"), "utf8")) as { version: string }
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "bowline")
  const folder = join(cache, `chromium-${version}`)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const next = mkdtempSync(`${folder}.`)
  try {
    await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "-e", `import chromium from "@sparticuz/chromium"; await chromium.executablePath()`],
      // The package unpacks the libraries only where it thinks that it needs them.
      { cwd: import.meta.dirname, env: { ...process.env, TMPDIR: next, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs24.x" } }
    )
    writeFileSync(join(next, "fonts", "fonts.conf"), fontsOf(folder))
    // Another process may have been first.
    if (!existsSync(folder)) renameSync(next, folder)
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
  return folder
}

/** The binary is for Linux on x64, with glibc. */
const runsHere = (): boolean => {
  if (process.platform !== "linux" || process.arch !== "x64") return false
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  return header.glibcVersionRuntime !== undefined
}

/** The first of `BOWLINE_TEST_BROWSER`, the machine's Chromium or Chrome, and that of the npm package. */
export const find = async (): Promise<Chromium | undefined> => {
  const given = process.env["BOWLINE_TEST_BROWSER"]
  if (given !== undefined && given !== "") {
    if (!isExecutable(given)) throw new Error(`BOWLINE_TEST_BROWSER: ${given} cannot be executed`)
    return { executablePath: given }
  }
  const installed = ofMachine()
  if (installed !== undefined) return { executablePath: installed }
  if (!runsHere()) return undefined
  const folder = await unpack()
  return {
    executablePath: join(folder, "chromium"),
    env: { LD_LIBRARY_PATH: join(folder, "al2023", "lib"), FONTCONFIG_PATH: join(folder, "fonts") }
  }
}
