import { Effect, Option, Schema } from "effect"
import { statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { GatewayConfig } from "../../config/GatewayConfig.ts"
import { type Check, fail, ok, warn } from "./Finding.ts"
import { existsSync } from "node:fs"

const MiB = 1_048_576
const megabytes = (bytes: number): string => `${Math.round(bytes / MiB).toLocaleString("en")} MiB`

const required = [22, 19] as const

const node: Check = {
  name: "node",
  find: Effect.sync(() => {
    const { version } = process
    const [major = 0, minor = 0] = version.slice(1).split(".").map(Number)
    const isEnough = major > required[0] || (major === required[0] && minor >= required[1])
    return [isEnough ? ok(version) : fail(version, `Install Node.js ${required.join(".")} or later; 24 is tested`)]
  })
}

/** The embedded database alone takes 300 MB, and 400 while it starts. */
const memory = ({ database }: GatewayConfig["Service"]): Check => ({
  name: "memory",
  find: Effect.sync(() => {
    const free = process.availableMemory()
    const least = (database._tag === "Embedded" ? 512 : 256) * MiB
    const detail = `${megabytes(free)} available`
    return [free >= least ? ok(detail) : warn(detail, `Give the process ${megabytes(least)} or more`)]
  })
})

const Report = Schema.Struct({
  userLimits: Schema.Struct({
    open_files: Schema.Struct({ soft: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]) })
  })
})
const decodeReport = Schema.decodeUnknownOption(Report)

/** Each caller that reads a stream takes one, and so does each connection to a provider and to a peer. */
const openFiles = ({ http }: GatewayConfig["Service"]): Check => ({
  name: "open files",
  find: Effect.sync(() => {
    // The report would look up the names of all open connections.
    Object.assign(process.report, { excludeNetwork: true })
    const report = decodeReport(process.report.getReport())
    if (Option.isNone(report)) return [ok("this system has no limit that can be read")]
    const { soft } = report.value.userLimits.open_files
    const detail = `${soft} at most`
    const least = http.maxConnections + 1_000
    return [
      soft === "unlimited" || soft >= least
        ? ok(detail)
        : warn(
            detail,
            `Raise it to ${least} (ulimit -n, LimitNOFILE), or lower http.max_connections, which is ${http.maxConnections}`
          )
    ]
  })
})

/** The folder, or the nearest one above it that exists. */
export const nearest = (folder: string): string => (existsSync(folder) ? folder : nearest(dirname(folder)))

const disk = (folder: string): Check => ({
  name: "disk",
  find: Effect.promise(() => statfs(nearest(resolve(folder)))).pipe(
    Effect.map(({ bavail, bsize }) => {
      const detail = `${megabytes(bavail * bsize)} free for ${resolve(folder)}`
      const advice = "Make room, or name a folder on another disk with BOWLINE_DATA_DIR"
      if (bavail * bsize < 100 * MiB) return [fail(detail, advice)]
      return [bavail * bsize < 1_024 * MiB ? warn(detail, advice) : ok(detail)]
    })
  )
})

/** What the process finds on its machine. */
export const machineChecks = (config: GatewayConfig["Service"]): ReadonlyArray<Check> => [
  node,
  memory(config),
  openFiles(config),
  ...(config.database._tag === "Embedded" ? [disk(config.database.dataDir)] : [])
]
