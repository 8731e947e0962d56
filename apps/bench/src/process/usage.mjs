// Loaded into each process that is measured: on request, it says what it has used so far.
import { readdirSync } from "node:fs"
import v8 from "node:v8"

const usage = () => ({ cpu: process.cpuUsage(), resident: process.memoryUsage.rss() })

/** What lives in the process, once its garbage is collected. */
const census = async () => {
  const Effect = await import("effect/Effect")
  const fibers = v8.queryObjects(Effect.runFork(Effect.void).constructor, { format: "count" })
  const { heapUsed, rss } = process.memoryUsage()
  return { resident: rss, heap: heapUsed, fibers, files: readdirSync("/proc/self/fd").length }
}

process.on("message", (what) => {
  if (what === "census") void census().then((seen) => process.send?.(seen))
  else process.send?.(usage())
})
process.channel?.unref()
