import type { TestProject } from "vitest/node"
import { makeTemplate } from "./makeTemplate.ts"
import { startServer } from "./startServer.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** A superuser's URL of a real Postgres: each test makes a database of its own on it. */
    readonly postgresUrl: string
    /** A database there that has all tables, and no rows of ours: a copy of it takes a tenth of what the migrations take. */
    readonly postgresTemplate: string
  }
}

interface Shared {
  readonly url: string
  readonly template: string
  readonly stop: () => Promise<void>
}

const sharedServer = async (): Promise<Shared> => {
  const given = process.env["DATABASE_URL"]
  if (given === undefined || given === "") {
    const { stop, url } = await startServer()
    return { url, stop, template: (await makeTemplate(url)).name }
  }
  const { drop, name } = await makeTemplate(given)
  return { url: given, stop: drop, template: name }
}

// Vitest loads this file once for each project that names it: they share one server, and the last one stops it.
declare global {
  var bowlinePostgres: { users: number; readonly server: Promise<Shared> } | undefined
}

export default async (project: TestProject) => {
  const shared = (globalThis.bowlinePostgres ??= { users: 0, server: sharedServer() })
  shared.users++
  const server = await shared.server
  project.provide("postgresUrl", server.url)
  project.provide("postgresTemplate", server.template)
  return async () => {
    if (--shared.users > 0) return
    globalThis.bowlinePostgres = undefined
    await server.stop()
  }
}
