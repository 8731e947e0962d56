import { assert, describe, it } from "@effect/vitest"
import * as Yaml from "effect/encoding/Yaml"
import { existsSync, globSync } from "node:fs"
import { join } from "node:path"
import { read, root } from "./Dockerfile.ts"

interface Step {
  readonly uses?: string
  readonly run?: string
}

interface Job {
  readonly needs?: string | ReadonlyArray<string>
  /** Another workflow, in place of steps. */
  readonly uses?: string
  readonly permissions?: object
  readonly "timeout-minutes"?: number
  readonly steps?: ReadonlyArray<Step>
}

interface Workflow {
  readonly on: object
  readonly permissions: unknown
  readonly jobs: Readonly<Record<string, Job>>
}

const files = globSync(".github/workflows/*.yml", { cwd: root })
const workflows = files.map((path) => Yaml.parse(read(path)) as Workflow)
const jobs = workflows.flatMap((workflow) => Object.entries(workflow.jobs))
const steps = jobs.flatMap(([, { steps = [] }]) => steps)
const commands = [
  ...steps.flatMap(({ run }) => (run === undefined ? [] : [run])),
  ...globSync(".ci/*.sh", { cwd: root }).map(read)
].join("\n")

/** What a group of the pattern is in the commands. */
const named = (pattern: RegExp) => Array.from(commands.matchAll(pattern), ([, name = ""]) => name)

describe("the workflows", () => {
  it("run on nobody's word: read only, with actions that are fixed to a commit", () => {
    assert.isAbove(files.length, 1)
    for (const { permissions } of workflows) assert.deepStrictEqual(permissions, { contents: "read" })
    for (const path of files) {
      const text = read(path)
      assert.notInclude(text, "pull_request_target")
      // Without a comment nobody knows which version the commit is.
      for (const [line] of text.matchAll(/^.*\buses:.*$/gm))
        assert.match(line, /uses: ([\w./-]+@[0-9a-f]{40} # v[\d.]+|\.\/\.github\/workflows\/ci\.yml)$/)
    }
  })

  it("end: each job has a time-out, and waits for jobs that exist", () => {
    for (const [name, job] of jobs) if (job.uses === undefined) assert.isAtMost(job["timeout-minutes"] ?? NaN, 40, name)
    for (const workflow of workflows) {
      const needed = Object.values(workflow.jobs).flatMap(({ needs = [] }) => needs)
      assert.includeMembers(Object.keys(workflow.jobs), needed)
    }
  })

  it("run scripts, files, projects and packages that exist", () => {
    const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: Readonly<Record<string, string>> }
    const run = named(/\bnpm run ([\w:-]+)/g)
    assert.isNotEmpty(run)
    assert.includeMembers(Object.keys(scripts), run)
    const paths = named(/(?:^|[\s"'])((?:\.ci|apps|charts|docs|examples|packages)\/[\w./-]+\w)/gm)
    assert.isAbove(paths.length, 10)
    assert.deepStrictEqual(
      paths.filter((path) => !existsSync(join(root, path)) && globSync(`${path}*`, { cwd: root }).length === 0),
      []
    )
    // Those that are one project in `npm test` alone.
    const [, pure = ""] = /const pure = \[([^\]]*)\]/.exec(read("vitest.workspace.ts")) ?? []
    const projects = [
      ...Array.from(pure.matchAll(/"([\w-]+)"/g), ([, name = ""]) => name),
      ...Array.from(read("vitest.workspace.ts").matchAll(/project\("\w+\/([\w-]+)"/g), ([, name = ""]) => name)
    ]
    assert.includeMembers(projects, named(/--project ([\w-]+)/g))
  })

  it("use the versions of the repository", () => {
    const [pnpm = ""] = /pnpm@[\d.]+/.exec(read(".ci/setup.mjs")) ?? []
    const used = named(/\b(pnpm@[\d.]+)/g)
    assert.isNotEmpty(used)
    for (const version of used) assert.strictEqual(version, pnpm)
    const { engines } = JSON.parse(read("packages/runtime/package.json")) as {
      readonly engines: { readonly node: string }
    }
    assert.include(read(".github/workflows/ci.yml"), `node: [${engines.node.replace(">=", "")}.0, 24`)
  })

  it("publish nothing that the checks have not passed, and all packages before they call a version published", () => {
    const { jobs } = Yaml.parse(read(".github/workflows/release.yml")) as Workflow
    const waitsFor = (name: string): ReadonlyArray<string> => {
      const needs = [jobs[name]?.needs ?? []].flat()
      return [...needs, ...needs.flatMap(waitsFor)]
    }
    const publishing = Object.keys(jobs).filter((name) =>
      /packages|id-token/.test(JSON.stringify(jobs[name]?.permissions))
    )
    assert.deepStrictEqual(publishing, ["npm", "image", "release"])
    for (const name of publishing) assert.include(waitsFor(name), "ci", name)
    // The loop goes through the tarballs by their names.
    const last = globSync("{apps,packages}/*/package.json", { cwd: root })
      .map((path) => JSON.parse(read(path)) as { readonly name: string; readonly private?: boolean })
      .flatMap((manifest) => (manifest.private === true ? [] : [manifest.name]))
      .toSorted()
      .at(-1)
    assert.include(commands, `npm view "${last}@$version"`)
  })

  it("publish without a token of a registry", () => {
    assert.deepStrictEqual(
      files.flatMap((path) => Array.from(read(path).matchAll(/secrets\.\w+/g), ([name]) => `${path}: ${name}`)),
      []
    )
    assert.include(commands, "npm publish")
    assert.include(commands, "--provenance")
  })

  it("push the image that the chart runs", () => {
    const values = Yaml.parse(read("charts/bowline/values.yaml")) as { readonly image: { readonly repository: string } }
    const [, found = ""] = /^  repository: (.*)$/m.exec(read("charts/bowline/values.yaml")) ?? []
    assert.include(commands, "s/^  repository: //p")
    assert.strictEqual(found, values.image.repository)
    assert.notInclude(files.map(read).join(""), found)
  })
})
