import { readFileSync } from "node:fs"
import { cp } from "node:fs/promises"
import { join, matchesGlob, relative } from "node:path"

export const root = join(import.meta.dirname, "../../../..")

export const read = (path: string): string => readFileSync(join(root, path), "utf8")

export interface Instruction {
  readonly name: string
  readonly text: string
}

/** The stages of the Dockerfile: each begins with its `FROM`. */
export const stages = (text: string): ReadonlyArray<ReadonlyArray<Instruction>> => {
  const lines = text
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
  const all = lines.flatMap((line) => {
    const [, name = "", text = ""] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    return name === "" ? [] : [{ name, text }]
  })
  const begins = all.flatMap(({ name }, at) => (name === "FROM" ? [at] : []))
  return begins.map((at, index) => all.slice(at, begins[index + 1]))
}

const isIgnored = (path: string): boolean => {
  // The last pattern that names the path or a folder above it decides.
  const last = read(".dockerignore")
    .split("\n")
    .findLast((line) => [line, `${line}/**`].some((pattern) => matchesGlob(path, pattern.replace(/^!/, ""))))
  return last !== undefined && !last.startsWith("!")
}

/** Copies what a `COPY` names from the checkout, except what `.dockerignore` leaves out. */
export const copySources = async (text: string, folder: string): Promise<void> => {
  const paths = text.split(" ")
  const target = paths.pop() ?? ""
  for (const path of paths) {
    const to = join(folder, target.endsWith("/") ? join(target, path) : target)
    await cp(join(root, path), to, { recursive: true, filter: (source) => !isIgnored(relative(root, source)) })
  }
}
