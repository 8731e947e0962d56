import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buildConsole, buildDocs } from "./pages.mjs"
import { bin, bundle, capture, environment, patchTypeScript, root } from "./setup.mjs"
import { onDisk } from "./temporary.mjs"

const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(1)} s`

const say = (line) => process.stdout.write(`${line}\n`)

/** Runs a command, says in a line how it went, and shows its output if it failed. */
const step = async (name, command, args, options) => {
  const since = performance.now()
  const { code, output } = await capture(command, args, options)
  say(`${code === 0 ? "ok  " : "FAIL"}  ${name} (${seconds(since)})`)
  if (code !== 0) say(`${output}\n`)
  return code === 0
}

const checksOf = ({ isBeside = false } = {}) => [
  ["format", "oxfmt", ["--check"]],
  ["lint", "oxlint", ["--format=unix"]],
  ["blocks of the documentation", "node", ["apps/gateway/test/docs/writeBlocks.ts"]],
  // Each checker of its own checks the types of libraries again: beside the tests, one takes a quarter less.
  ["types", "tsc", ["--checkers", isBeside ? "1" : "2"]],
  ["types of the console", "tsc", ["-p", "apps/console"]],
  ["types of the site", "tsc", ["-p", "apps/docs"]],
  ["dead code", "knip", ["--no-progress", "--no-config-hints"]],
  ["package direction", "node", [".ci/package-direction.ts"]]
]

const failing = async (steps) => {
  const failed = []
  for (const [name, command, args, options] of steps) {
    if (!(await step(name, command, args, options))) failed.push(name)
  }
  return failed
}

/** Milliseconds after which a step hangs. It has only the processors that the tests leave it, and may wait for the end of all of them. */
const stuck = 1_800_000

/** Runs every static check, and returns the names of those that failed. */
export const runChecks = async (options) => {
  await patchTypeScript()
  return failing(checksOf(options).map(([name, command, args]) => [name, bin(command), args, options]))
}

/** Runs every example: each asserts its own story and ends with 0. */
export const runExamples = () => {
  const folders = readdirSync(join(root, "examples"), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return failing(
    folders.flatMap(({ name }) => {
      const cwd = join(root, "examples", name)
      const { scripts } = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"))
      if (scripts?.start === undefined) return []
      // Each would compile the same sources.
      const env = { ...environment(), NODE_COMPILE_CACHE: join(root, "node_modules", ".bowline-compiled") }
      return [[`example ${name}`, scripts.start, [], { cwd, env, shell: true, timeout: stuck }]]
    })
  )
}

/** The first hours of three people, without a network, with the packages that `runPublishCheck` has packed. */
export const runFirstHours = (options) =>
  failing([["first hours", bin("node"), [".ci/first-hour.mjs", "--packed"], { timeout: stuck, ...options }]])

/** Serves in a checkout in which nothing is installed. It is on the disk, as the store of pnpm is, whose files it links. */
export const runServing = (options) => {
  const env = onDisk(environment())
  return failing([["serving alone", bin("node"), [".ci/serving.mjs"], { timeout: stuck, env, ...options }]])
}

/** Packs the packages, and uses them as a stranger does. */
export const runPublishCheck = (options) =>
  failing([["packages", bin("node"), [".ci/publish/main.mjs"], { timeout: stuck, ...options }]])

const count = (report) => {
  // A file that does not even load has no tests that could fail: it counts as one.
  const broken = report.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed")
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken.length,
    skipped: report.numPendingTests + report.numTodoTests
  }
}

/** Runs the tests, with the gateway in one bundle where they start it as a process, and counts them. A run that crashes, or fails for another reason than a test, counts as a failure. */
export const runTests = async (args) => {
  const problem = (await buildConsole()) ?? (await buildDocs())
  if (problem !== undefined) say(`FAIL  pages\n${problem}\n`)
  const isBundled = problem === undefined && (await step("bundle", bin("node"), [".ci/bundle.mjs"]))
  const folder = mkdtempSync(join(tmpdir(), "bowline-test-"))
  const env = {
    ...environment(),
    ...(isBundled ? { BOWLINE_TEST_BUNDLE: bundle } : {}),
    // The tests of the test kit run these plans again.
    BOWLINE_TEST_RECORDS_SAMPLE: folder
  }
  const report = join(folder, "report.json")
  try {
    const flags = ["--allowOnly=false", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`]
    const child = spawn(bin("vitest"), ["run", ...flags, ...args], { cwd: root, env, stdio: "inherit" })
    // Told to stop, the run cleans up, and counts as one that crashed.
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => child.kill(signal))
    const code = await new Promise((resolve) => {
      child.once("error", () => resolve(127))
      child.once("close", (code, signal) => resolve(code ?? signal))
    })
    let counts = { passed: 0, failed: 0, skipped: 0 }
    try {
      counts = count(JSON.parse(readFileSync(report, "utf8")))
    } catch {
      say("The run of the tests ended without a report.")
    }
    return (code === 0 && isBundled) || counts.failed > 0 ? counts : { ...counts, failed: 1 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
