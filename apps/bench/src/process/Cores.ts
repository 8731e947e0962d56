import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"

/** The cores that this process may use, in the order of their numbers: `0-3,8` are five. */
const allowed = (): ReadonlyArray<number> => {
  const [, list = ""] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync("/proc/self/status", "utf8")) ?? []
  return list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}

/**
 * Keeps the first core for the processes that are measured, which run in turns. This process, and the others that it
 * starts, move to the rest; `all` is for those that are measured and may use every core.
 */
const separate = (): {
  readonly measured: number | undefined
  readonly all: string | undefined
  readonly note: string
} => {
  try {
    const [measured, ...others] = allowed()
    if (measured === undefined || others.length === 0) {
      return { measured: undefined, all: undefined, note: "not pinned: only one core" }
    }
    execFileSync("taskset", ["--all-tasks", "--pid", "--cpu-list", others.join(","), String(process.pid)])
    const all = [measured, ...others].join(",")
    return { measured, all, note: `what is measured has core ${measured}, the load and all else ${others.join(", ")}` }
  } catch {
    return { measured: undefined, all: undefined, note: "not pinned: no taskset here" }
  }
}

export const cores = separate()
