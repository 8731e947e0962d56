import { chromium } from "playwright-core"
import type { TestProject } from "vitest/node"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { find } from "./Chromium.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Where the browser of all tests listens. Null if there is none. */
    readonly browserUrl: string | null
  }
}

const noBrowser =
  "No browser: install Chromium, or name one in BOWLINE_TEST_BROWSER. The tests of the console in a browser are skipped.\n"

/** Builds the page, unless `npm test` has done so, and starts one browser for all tests. */
export default async (project: TestProject) => {
  if (process.env["BOWLINE_TEST_BUNDLE"] === undefined) {
    // In the environment of the tests it would be another page, with paths of this machine, and would be packed.
    const env = { ...process.env, NODE_ENV: "production" }
    const folder = join(import.meta.dirname, "../..")
    await promisify(execFile)(join(folder, "../../node_modules/.bin/vite"), ["build"], { cwd: folder, env })
  }
  const found = await find()
  if (found === undefined) {
    if (process.env["CI"]) throw new Error(noBrowser)
    process.stderr.write(noBrowser)
    project.provide("browserUrl", null)
    return undefined
  }
  const server = await chromium.launchServer({
    executablePath: found.executablePath,
    // Root cannot have a sandbox, and nothing else is switched off: the tests are about what a browser defends.
    args: ["--no-sandbox"],
    env: { ...process.env, ...found.env }
  })
  project.provide("browserUrl", server.wsEndpoint())
  return () => server.close()
}
