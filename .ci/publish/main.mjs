// Packs every package and looks at the tarballs as a stranger does, without the internet: prints what is wrong, and ends with 1 if anything is.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checkTypes, install, makeConsumer, runApp, runDemo } from "./consumer.mjs"
import { checkImage } from "./image.mjs"
import { lint } from "./lint.mjs"
import { pack } from "./pack.mjs"
import { serveRegistry } from "./registry.mjs"
import { compareReports, examine } from "./surface.mjs"
import { problemsOf, readTarballs } from "./tarballs.mjs"
import { packages } from "./workspace.mjs"

const isUpdate = process.argv.includes("--update")

/** An app that npm installed, and one that pnpm installed: nothing but the packages and what they ask for. */
const consumers = [
  { manager: "npm", resolution: "nodenext", bowline: ["npx", "bowline"], settings: { BOWLINE_DATA_DIR: "memory:" } },
  { manager: "pnpm", resolution: "bundler", bowline: [join("node_modules", ".bin", "bowline")], settings: {} }
]

const consume = async ({ manager, resolution, bowline, settings }, tarballs, examples, registry) => {
  const folder = mkdtempSync(join(tmpdir(), `bowline-${manager}-`))
  try {
    makeConsumer(folder, tarballs, examples)
    const failed = await install(manager, folder, registry)
    if (failed.length > 0) return failed
    const types = await checkTypes(resolution, folder)
    return [...types, ...(await runApp(folder)), ...(await runDemo(folder, bowline, settings))].map(
      (problem) => `Installed by ${manager}: ${problem}`
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const check = async () => {
  const unpacked = await pack()
  if (unpacked !== undefined) return [unpacked]
  const tarballs = await readTarballs()
  const { examples, problems } = examine(packages)
  problems.push(...compareReports(packages, isUpdate), ...tarballs.flatMap(problemsOf))
  for (const tarball of tarballs) problems.push(...(await lint(tarball)))
  const registry = await serveRegistry(tarballs)
  try {
    for (const consumer of consumers) problems.push(...(await consume(consumer, tarballs, examples, registry.url)))
  } finally {
    registry.close()
  }
  problems.push(...(await checkImage()))
  return problems
}

const problems = await check()
if (problems.length > 0) {
  process.stdout.write(`${problems.join("\n")}\n`)
  process.exitCode = 1
}
