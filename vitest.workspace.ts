import type { TestProjectInlineConfiguration } from "vitest/config"

const project = (folder: string, globalSetup: ReadonlyArray<string> = []): TestProjectInlineConfiguration => ({
  extends: true,
  root: folder,
  test: {
    name: folder.split("/").at(-1) ?? folder,
    include: ["test/**/*.test.ts"],
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
  project("packages/storage-sql", postgres),
  project("packages/testing"),
  project("apps/gateway", postgres)
]
