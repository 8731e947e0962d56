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

/** Packages whose tests stay in their process. */
const alone = ["domain", "protocol", "runtime", "provider-openai", "provider-anthropic", "a2a", "mcp", "client"]

/** In `npm test` they are one project: its workers load Effect, and what else they have in common, once, and not once for each package. */
const units =
  process.env["BOWLINE_TEST_BUNDLE"] === undefined
    ? alone.map((name) => project(`packages/${name}`))
    : [project("packages", { name: "units", include: alone.map((name) => `${name}/test/**/*.test.ts`) })]

export default [
  ...units,
  project("packages/storage-sql", { globalSetup: postgres, processes: true }),
  project("packages/testing"),
  project("apps/gateway", { globalSetup: postgres, processes: true, exclude: [simulation] }),
  // It watches everything that happens in its process, so no other file may have begun something there.
  project("apps/gateway", { name: "gateway simulation", include: [simulation], isolate: true, processes: true }),
  project("apps/console", { globalSetup: [...postgres, "apps/console/test/browser/globalSetup.ts"], processes: true })
]
