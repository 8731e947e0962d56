import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { root } from "../setup.mjs"

export const readJson = (path) => JSON.parse(readFileSync(path, "utf8"))

/** What is published: every package, and the gateway. */
export const packages = globSync("{packages/*,apps/gateway}/package.json", { cwd: root })
  .sort()
  .map((path) => ({ folder: join(root, dirname(path)), manifest: readJson(join(root, path)) }))
  .filter(({ manifest }) => manifest.private !== true)

/** An entry that only the packages of this repository use: it may change in every version. */
export const isUnstable = (entry) => entry.startsWith("./unstable/")

/** The entries of a package that an app may import, with the files of their sources. */
export const entriesOf = ({ folder, manifest }) =>
  Object.entries(manifest.exports)
    .filter(([entry]) => !isUnstable(entry))
    .map(([entry, source]) => ({
      entry,
      specifier: join(manifest.name, entry),
      source: join(folder, source),
      declarations: join(folder, source.replace("./src/", "./dist/").replace(/\.ts$/, ".d.ts"))
    }))

export const readText = (path) => (existsSync(path) ? readFileSync(path, "utf8") : "")
