import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { CommandLine } from "../../../src/config/CommandLine.ts"
import { fromEnvironment } from "../../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../../src/config/setting/ConfigProblem.ts"

/** A folder with these files, for as long as the test runs. */
export const folderOf = (files: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(join(tmpdir(), "bowline-config-"))
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
      return folder
    }),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  )

type Environment = Readonly<Record<string, string>>

/** Reads a configuration with this file. */
export const load = Effect.fnUntraced(function* (
  name: string,
  text: string,
  environment: Environment = {},
  commandLine: Partial<CommandLine> = {}
) {
  const BOWLINE_CONFIG = join(yield* folderOf({ [name]: text }), name)
  return yield* fromEnvironment({ BOWLINE_CONFIG, ...environment }, false, commandLine)
})

/** What is wrong with a configuration with this file, line by line. */
export const problems = (name: string, text: string, environment: Environment = {}) =>
  load(name, text, environment).pipe(
    Effect.flip,
    Effect.map((error) => error.problems.map(formatProblem))
  )
