import { availableParallelism } from "node:os"
import type { TestProjectInlineConfiguration } from "vitest/config"

/** `processes`: its tests start processes and databases, which takes its time on a busy machine. */
const project = (
  folder: string,
  {
    globalSetup = [],
    processes = false,
    ...others
  }: {
    readonly globalSetup?: ReadonlyArray<string>
    readonly processes?: boolean
    readonly name?: string
    readonly include?: Array<string>
    readonly exclude?: Array<string>
    readonly isolate?: boolean
    readonly maxWorkers?: number
    readonly sequence?: { readonly groupOrder: number }
  } = {}
): TestProjectInlineConfiguration => ({
  extends: true,
  root: folder,
  test: {
    name: folder.split("/").at(-1) ?? folder,
    include: ["test/**/*.test.ts"],
    ...(processes ? { testTimeout: 400_000, hookTimeout: 400_000 } : {}),
    globalSetup: globalSetup.map((path) => `${import.meta.dirname}/${path}`),
    ...others
  }
})

const postgres = ["packages/storage-sql/test/postgres/globalSetup.ts"]

const simulation = "test/simulation/**/*.test.ts"

/** Packages whose tests stay in their process, and need no database. */
const pure = [
  "domain",
  "protocol",
  "provider-openai",
  "provider-anthropic",
  "mcp",
  "client",
  "runtime",
  "a2a",
  "testing"
]

/**
 * In `npm test` they are one project: its workers load Effect, and what else they have in common, once, and not once for each package. They keep a processor busy each, so
 * that two are enough. Vitest has one number of workers for each group.
 */
const pureOnes =
  process.env["BOWLINE_TEST_BUNDLE"] === undefined
    ? pure.map((name) => project(`packages/${name}`))
    : [
        project("packages", {
          name: "packages",
          include: pure.map((name) => `${name}/test/**/*.test.ts`),
          maxWorkers: Math.min(2, availableParallelism()),
          sequence: { groupOrder: 1 }
        })
      ]

export default [
  ...pureOnes,
  project("packages/storage-sql", { globalSetup: postgres, processes: true }),
  project("apps/gateway", { globalSetup: postgres, processes: true, exclude: [simulation] }),
  // It watches everything that happens in its process, so no other file may have begun something there.
  project("apps/gateway", { name: "gateway simulation", include: [simulation], isolate: true, processes: true }),
  project("apps/console", { globalSetup: [...postgres, "apps/console/test/browser/globalSetup.ts"], processes: true })
]
