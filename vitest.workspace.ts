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

/** In `npm test` projects of one kind are one: its workers load Effect, and what else they have in common, once, and not once for each project. */
const isWhole = process.env["BOWLINE_TEST_BUNDLE"] !== undefined

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

/** Tests of these packages that mostly wait for processes. They run with the tests that start processes, so that others use the processors meanwhile. */
const waiting = ["client/test/Process.test.ts", "mcp/test/process/*.test.ts", "mcp/test/server/Everything.test.ts"]

const pureOnes = isWhole
  ? [
      project("packages", {
        name: "packages",
        include: pure.map((name) => `${name}/test/**/*.test.ts`),
        exclude: waiting,
        // Each keeps a processor busy. Vitest has one number of workers for each group.
        maxWorkers: Math.min(2, availableParallelism()),
        sequence: { groupOrder: 1 }
      })
    ]
  : pure.map((name) => project(`packages/${name}`))

const browser = "apps/console/test/browser/globalSetup.ts"

const processes = isWhole
  ? [
      project(".", {
        name: "processes",
        include: [
          ...["packages/storage-sql", "apps/gateway", "apps/console"].map((folder) => `${folder}/test/**/*.test.ts`),
          ...waiting.map((path) => `packages/${path}`)
        ],
        exclude: [`apps/gateway/${simulation}`],
        globalSetup: [...postgres, browser],
        processes: true
      })
    ]
  : [
      project("packages/storage-sql", { globalSetup: postgres, processes: true }),
      project("apps/gateway", { globalSetup: postgres, processes: true, exclude: [simulation] }),
      project("apps/console", { globalSetup: [...postgres, browser], processes: true })
    ]

export default [
  ...pureOnes,
  ...processes,
  // It watches everything that happens in its process, so no other file may have begun something there.
  project("apps/gateway", { name: "gateway simulation", include: [simulation], isolate: true, processes: true })
]
