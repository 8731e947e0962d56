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

/** Packages with few tests, which need no database. */
const small = ["domain", "protocol", "provider-openai", "provider-anthropic", "mcp", "client"]

/** In `npm test` they are one project: its workers load Effect, and what else they have in common, once, and not once for each package. */
const smallOnes =
  process.env["BOWLINE_TEST_BUNDLE"] === undefined
    ? small.map((name) => project(`packages/${name}`))
    : [project("packages", { name: "small packages", include: small.map((name) => `${name}/test/**/*.test.ts`) })]

export default [
  ...smallOnes,
  project("packages/runtime"),
  project("packages/a2a"),
  project("packages/storage-sql", { globalSetup: postgres, processes: true }),
  project("packages/testing"),
  project("apps/gateway", { globalSetup: postgres, processes: true, exclude: [simulation] }),
  // It watches everything that happens in its process, so no other file may have begun something there.
  project("apps/gateway", { name: "gateway simulation", include: [simulation], isolate: true, processes: true }),
  project("apps/console", { globalSetup: [...postgres, "apps/console/test/browser/globalSetup.ts"], processes: true })
]
