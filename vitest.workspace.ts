import type { TestProjectInlineConfiguration } from "vitest/config"

/** `processes`: its tests start processes and databases, which takes its time on a busy machine. */
const project = (
  folder: string,
  {
    globalSetup = [],
    processes = false
  }: { readonly globalSetup?: ReadonlyArray<string>; readonly processes?: boolean } = {}
): TestProjectInlineConfiguration => ({
  extends: true,
  root: folder,
  test: {
    name: folder.split("/").at(-1) ?? folder,
    include: ["test/**/*.test.ts"],
    ...(processes ? { testTimeout: 120_000, hookTimeout: 120_000 } : {}),
    globalSetup: globalSetup.map((path) => `${import.meta.dirname}/${path}`)
  }
})

const postgres = ["packages/storage-sql/test/postgres/globalSetup.ts"]

export default [
  project("packages/domain"),
  project("packages/protocol"),
  project("packages/runtime"),
  project("packages/provider-openai"),
  project("packages/provider-anthropic"),
  project("packages/a2a"),
  project("packages/mcp"),
  project("packages/storage-sql", { globalSetup: postgres, processes: true }),
  project("packages/testing"),
  project("packages/client"),
  project("apps/gateway", { globalSetup: postgres, processes: true }),
  project("apps/console", { globalSetup: [...postgres, "apps/console/test/browser/globalSetup.ts"], processes: true })
]
