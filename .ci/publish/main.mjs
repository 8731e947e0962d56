// Packs every package and looks at the tarballs as a stranger does, without the internet: prints what is wrong, and ends with 1 if anything is.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checkTypes, install, makeConsumer, runApp, runDemo } from "./consumer.mjs"
import { checkImage } from "./image.mjs"
import { lint } from "./lint.mjs"
import { pack } from "./pack.mjs"
import { findUnnamed } from "./reach.mjs"
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

/** Prints problems as they are found, and returns whether there are none. */
const report = (problems) => {
  if (problems.length === 0) return true
  process.stdout.write(`${problems.join("\n")}\n`)
  process.exitCode = 1
  return false
}

const consume = async ({ manager, resolution, bowline, settings }, tarballs, examples, registry) => {
  const folder = mkdtempSync(join(tmpdir(), `bowline-${manager}-`))
  const said = (problems) => report(problems.map((problem) => `Installed by ${manager}: ${problem}`))
  try {
    makeConsumer(folder, tarballs, examples)
    if (!said(await install(manager, folder, registry))) return
    said(await checkTypes(resolution, folder))
    said(await runApp(folder))
    said(await runDemo(folder, bowline, settings))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const check = async () => {
  const problem = await pack()
  if (problem !== undefined) return report([problem])
  const tarballs = await readTarballs()
  const { examples, problems } = examine(packages)
  report([
    ...problems,
    ...findUnnamed(packages),
    ...compareReports(packages, isUpdate),
    ...tarballs.flatMap(problemsOf)
  ])
  for (const tarball of tarballs) report(await lint(tarball))
  const registry = await serveRegistry(tarballs)
  try {
    for (const consumer of consumers) await consume(consumer, tarballs, examples, registry.url)
  } finally {
    registry.close()
  }
  return report(await checkImage())
}

await check()
