import type { TestProject } from "vitest/node"
import { type Server, startServer } from "./startServer.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** A superuser's URL of a real Postgres: each test makes a database of its own on it. */
    readonly postgresUrl: string
  }
}

const sharedServer = async (): Promise<Pick<Server, "url" | "stop">> => {
  const given = process.env["DATABASE_URL"]
  return given === undefined || given === "" ? startServer() : { url: given, stop: async () => {} }
}

// Vitest loads this file once for each project that names it: they share one server, and the last one stops it.
declare global {
  var bowlinePostgres: { users: number; readonly server: Promise<Pick<Server, "url" | "stop">> } | undefined
}

export default async (project: TestProject) => {
  const shared = (globalThis.bowlinePostgres ??= { users: 0, server: sharedServer() })
  shared.users++
  const server = await shared.server
  project.provide("postgresUrl", server.url)
  return async () => {
    if (--shared.users > 0) return
    globalThis.bowlinePostgres = undefined
    await server.stop()
  }
}
