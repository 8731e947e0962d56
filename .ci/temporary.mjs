import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { isAlive } from "./setup.mjs"

const memory = "/dev/shm"
const prefix = "bowline-test-"
const gibibyte = 1024 ** 3

/** Some machines start no program that lies in memory: tests write programs. */
const starts = (folder) => {
  const program = join(folder, "program")
  writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 })
  return spawnSync(program).status === 0
}

/** Folders of runs that were killed: nobody else deletes them. A process that another container has may look like one that is gone. */
const removeLeftOver = () => {
  for (const name of readdirSync(memory).filter((name) => name.startsWith(prefix))) {
    const path = join(memory, name)
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (age > 3_600_000 && !isAlive(Number.parseInt(name.slice(prefix.length)))) {
      rmSync(path, { recursive: true, force: true })
    }
  }
}

/**
 * Puts the temporary folder into memory, where there is much of it, and nobody has chosen a folder. The databases of the tests make and delete some hundred
 * thousand files: on ext4 that alone takes a tenth of the CPU of `npm test`.
 */
export const useMemory = () => {
  if (process.env.TMPDIR !== undefined || !existsSync(memory)) return
  const { bavail, bsize } = statfsSync(memory)
  if (bavail * bsize < 4 * gibibyte || (process.availableMemory?.() ?? 0) < 8 * gibibyte) return
  removeLeftOver()
  const folder = mkdtempSync(join(memory, `${prefix}${process.pid}-`))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  if (!starts(folder)) return
  // As `/tmp`: the tests' PostgreSQL may run as another user.
  chmodSync(folder, 0o1777)
  process.env.TMPDIR = folder
}

/** An environment without the temporary folder in memory. */
export const onDisk = ({ TMPDIR, ...others }) =>
  TMPDIR === undefined || TMPDIR.startsWith(join(memory, prefix)) ? others : { TMPDIR, ...others }
