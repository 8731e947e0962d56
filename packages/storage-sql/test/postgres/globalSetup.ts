import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { TestProject } from "vitest/node"

declare module "vitest" {
  interface ProvidedContext {
    /** A superuser's URL of a real Postgres: each test makes a database of its own on it. */
    readonly postgresUrl: string
  }
}

interface Server {
  readonly url: string
  readonly stop: () => Promise<void>
}

const startServer = async (): Promise<Server> => {
  const given = process.env["DATABASE_URL"]
  if (given !== undefined && given !== "") return { url: given, stop: async () => {} }
  const keeper = spawn(process.execPath, [join(import.meta.dirname, "keepServer.ts")], {
    // A session of its own: it must outlive a Ctrl-C, to clean up when this process is gone.
    detached: true,
    stdio: ["pipe", "pipe", "inherit"]
  })
  const ended = once(keeper, "close")
  const url = await Promise.race([
    once(createInterface({ input: keeper.stdout }), "line").then(([line]) => String(line)),
    ended.then(() => undefined)
  ])
  if (url === undefined) throw new Error("No Postgres for the tests: the reason is printed above")
  return {
    url,
    stop: async () => {
      keeper.stdin.end()
      await ended
    }
  }
}

// Vitest loads this file once for each project that names it: they share one server, and the last one stops it.
declare global {
  var bowlinePostgres: { users: number; readonly server: Promise<Server> } | undefined
}

export default async (project: TestProject) => {
  const shared = (globalThis.bowlinePostgres ??= { users: 0, server: startServer() })
  shared.users++
  const server = await shared.server
  project.provide("postgresUrl", server.url)
  return async () => {
    if (--shared.users > 0) return
    globalThis.bowlinePostgres = undefined
    await server.stop()
  }
}
