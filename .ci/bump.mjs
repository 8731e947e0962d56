import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { bin, capture, root } from "./setup.mjs"

const read = (path) => readFileSync(join(root, path), "utf8")
const version = () => JSON.parse(read("apps/gateway/package.json")).version

/** Gives the packages the version that the changesets ask for, and the chart the same one. */
const before = version()
const { code, output } = await capture(bin("changeset"), ["version", ...process.argv.slice(2)])
process.stdout.write(`${output}\n`)
if (code === 0) {
  for (const path of ["charts/bowline/Chart.yaml", "charts/bowline.yaml"]) {
    writeFileSync(join(root, path), read(path).replaceAll(before, version()))
  }
} else process.exitCode = 1
