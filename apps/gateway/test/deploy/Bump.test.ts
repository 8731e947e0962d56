import { assert, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "./Dockerfile.ts"

const manifests = "{packages,apps,examples}/*/package.json"

it("the packages and the chart get one version, from changesets, and examples keep theirs", ({ onTestFinished }) => {
  const folder = mkdtempSync(join(tmpdir(), "bowline-bump-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const paths = ["package.json", "pnpm-workspace.yaml", "pnpm-lock.yaml", ".changeset", ".ci", "charts"]
  for (const path of [...paths, ...globSync(manifests, { cwd: root })]) {
    cpSync(join(root, path), join(folder, path), { recursive: true, verbatimSymlinks: true })
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  const versionsNow = () =>
    globSync(manifests, { cwd: folder }).map(
      (path) =>
        JSON.parse(read(path)) as { readonly name: string; readonly version: string; readonly private?: boolean }
    )
  const read = (path: string) => readFileSync(join(folder, path), "utf8")
  const before = versionsNow()
  const { version = "" } = before.find(({ name }) => name === "@bowline/runtime") ?? {}
  const [major, minor] = version.split(".").map(Number)
  const next = `${major}.${Number(minor) + 1}.0`
  const text = "---\n'@bowline/runtime': minor\n---\n\nPlans end sooner.\n"
  writeFileSync(join(folder, ".changeset", "ends-sooner.md"), text)
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.example", ...args], { cwd: folder })
  git("init", "--quiet", "--initial-branch=main")
  execFileSync(process.execPath, [".ci/bump.mjs"], { cwd: folder })

  assert.deepStrictEqual(
    versionsNow().map((one) => [one.name, one.version]),
    before.map((one) => [one.name, one.private === true ? one.version : next])
  )
  assert.include(read("packages/runtime/CHANGELOG.md"), `## ${next}\n\n### Minor Changes\n`)
  assert.include(read("packages/runtime/CHANGELOG.md"), "Plans end sooner.")
  assert.notInclude(read("apps/gateway/CHANGELOG.md"), "Updated dependencies")
  const number = next.replaceAll(".", String.raw`\.`)
  assert.match(read("charts/bowline/Chart.yaml"), new RegExp(`^version: ${number}\nappVersion: ${number}$`, "m"))
  assert.match(read("charts/bowline.yaml"), new RegExp(`image: ".*:${number}"`))
  assert.notInclude(read("charts/bowline.yaml"), version)
  assert.isFalse(existsSync(join(folder, ".changeset", "ends-sooner.md")))
})
