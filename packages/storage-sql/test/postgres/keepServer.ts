// A program of its own that owns a Postgres for as long as its stdin stays open: however the test run ends, `kill -9`
// included, the pipe closes, and the server and its folder go. Prints the URL of the server on stdout once it is ready. A line
// on stdin crashes the server and starts it again, and the URL is printed again. Its arguments are more settings: `name=value`.
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { findBinaries, findUser, type RunAs } from "./findBinaries.ts"

const settings = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "300",
  shared_buffers: "64MB",
  // The folder is thrown away: only speed matters.
  fsync: "off",
  full_page_writes: "off",
  jit: "off"
}

const writable = (folder: string, user: RunAs): boolean =>
  spawnSync("/bin/sh", ["-c", 'test -w "$1" && test -x "$1"', "sh", folder], { ...user, cwd: "/" }).status === 0

const makeFolder = (user: RunAs): string => {
  // A temporary folder below root's home is out of reach for the user that Postgres runs as.
  const base = [tmpdir(), "/tmp"].find((folder) => writable(folder, user)) ?? tmpdir()
  const folder = mkdtempSync(join(base, "bowline-postgres-"))
  chmodSync(folder, 0o755)
  return folder
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  await once(server, "close")
  if (address === null || typeof address === "string") throw new Error("No free port on the loopback address")
  return address.port
}

const env = { ...process.env, LC_ALL: "C", LC_MESSAGES: "C" }

const initialise = (bin: string, data: string, password: string, user: RunAs): void => {
  const passwordFile = `${data}.password`
  mkdirSync(data, { mode: 0o700 })
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (user.uid !== undefined && user.gid !== undefined) {
    for (const path of [data, passwordFile]) chownSync(path, user.uid, user.gid)
  }
  const flags = ["--username=bowline", "--auth=scram-sha-256", `--pwfile=${passwordFile}`]
  const result = spawnSync(
    join(bin, "initdb"),
    [`--pgdata=${data}`, ...flags, "--encoding=UTF8", "--locale=C", "--no-sync"],
    { ...user, cwd: data, env, encoding: "utf8" }
  )
  if (result.status !== 0) throw new Error(`initdb failed: ${result.stderr || String(result.error)}`)
}

/** Ready, or the tail of its log when it ended before: another process may have taken the port in between. */
const start = async (bin: string, data: string, port: number, user: RunAs): Promise<ChildProcess | string> => {
  const all = [...Object.entries(settings).map(([name, value]) => `${name}=${value}`), ...process.argv.slice(2)]
  const flags = all.flatMap((setting) => ["-c", setting])
  const server = spawn(join(bin, "postgres"), ["-D", data, "-p", String(port), ...flags], {
    ...user,
    cwd: data,
    env,
    stdio: ["ignore", "ignore", "pipe"]
  })
  const log: Array<string> = []
  const ready = new Promise<boolean>((resolve) => {
    createInterface({ input: server.stderr }).on("line", (line) => {
      if (log.push(line) > 20) log.shift()
      if (line.includes("ready to accept connections")) resolve(true)
    })
    server.once("close", () => resolve(false))
    server.once("error", (error) => {
      log.push(error.message)
      resolve(false)
    })
  })
  return (await ready) ? server : log.join("\n")
}

const startSomewhere = async (bin: string, data: string, user: RunAs) => {
  let failure = ""
  for (let attempt = 0; attempt < 5; attempt++) {
    const port = await freePort()
    const server = await start(bin, data, port, user)
    if (typeof server !== "string") return { server, port }
    failure = server
  }
  throw new Error(`Postgres did not start:\n${failure}`)
}

// A Ctrl-C on the terminal reaches the whole process group: the tests may still need the server to clean up after them.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {})
const commands = createInterface({ input: process.stdin })
const abandoned = once(process.stdin, "close")
// Who ended before it could read the URL has closed stdin too.
process.stdout.on("error", () => {})

const user = findUser()
const folder = makeFolder(user)
try {
  const data = join(folder, "data")
  const password = randomBytes(12).toString("hex")
  const bin = findBinaries(user, folder)
  initialise(bin, data, password, user)
  const { server, port } = await startSomewhere(bin, data, user)
  const sayUrl = () => process.stdout.write(`postgres://bowline:${password}@127.0.0.1:${port}/postgres\n`)
  sayUrl()
  for (let running = server; ;) {
    const isCrash = await Promise.race([
      once(commands, "line").then(() => true),
      abandoned.then(() => false),
      once(running, "close").then(() => false)
    ])
    if (running.exitCode === null && running.signalCode === null) {
      running.kill("SIGQUIT")
      await once(running, "close")
    }
    if (!isCrash) break
    const again = await start(bin, data, port, user)
    if (typeof again === "string") throw new Error(`Postgres did not start again:\n${again}`)
    running = again
    sayUrl()
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}
