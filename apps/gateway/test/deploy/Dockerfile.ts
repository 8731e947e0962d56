import { readFileSync } from "node:fs"
import { join } from "node:path"

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
