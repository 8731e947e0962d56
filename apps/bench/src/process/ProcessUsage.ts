import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"

const hasProc = existsSync("/proc/self/schedstat")

const ps = (pid: number, field: string): string =>
  execFileSync("ps", ["-o", `${field}=`, "-p", String(pid)], { encoding: "utf8" }).trim()

/** The CPU time of a process so far, in milliseconds: all its threads, user and system. */
export const cpuMillis = (pid: number): number => {
  if (!hasProc) {
    const [seconds = 0, minutes = 0, hours = 0] = ps(pid, "time").split(":").map(Number).toReversed()
    return (seconds + 60 * (minutes + 60 * hours)) * 1_000
  }
  const threads = readdirSync(`/proc/${pid}/task`)
  const nanos = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0])
  )
  return nanos.reduce((all, each) => all + each, 0) / 1e6
}

/** The memory that a process has resident, in KiB. */
export const residentKiB = (pid: number): number => {
  if (!hasProc) return Number(ps(pid, "rss"))
  const [, size] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return Number(size)
}
