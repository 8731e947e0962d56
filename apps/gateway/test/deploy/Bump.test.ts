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
  const text = "---\n'@bowline/runtime': minor\n---\n\nPlans end sooner.\n"
  writeFileSync(join(folder, ".changeset", "ends-sooner.md"), text)
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b.example", ...args], { cwd: folder })
  git("init", "--quiet", "--initial-branch=main")
  execFileSync(process.execPath, [".ci/bump.mjs"], { cwd: folder })

  const read = (path: string) => readFileSync(join(folder, path), "utf8")
  for (const path of globSync(manifests, { cwd: folder })) {
    const { name, private: isPrivate, version } = JSON.parse(read(path)) as Readonly<Record<string, unknown>>
    assert.strictEqual(version, isPrivate === true ? "0.1.0" : "0.2.0", String(name))
  }
  assert.include(read("packages/runtime/CHANGELOG.md"), "Plans end sooner.")
  assert.match(read("charts/bowline/Chart.yaml"), /^version: 0\.2\.0\nappVersion: 0\.2\.0$/m)
  assert.match(read("charts/bowline.yaml"), /image: ".*:0\.2\.0"/)
  assert.notInclude(read("charts/bowline.yaml"), "0.1.0")
  assert.isFalse(existsSync(join(folder, ".changeset", "ends-sooner.md")))
})
