import { distance } from "fastest-levenshtein"
import { createHash } from "node:crypto"
import type { Tool } from "./Tool.ts"

const maxLength = 64

/**
 * `<agent>_<skill>` in the characters that every provider takes. A name that is too long, or lost a character, ends in
 * a stable hash of the two names, so that no two tools get the same name.
 */
export const forSkill = (agent: string, skill: string): string => shorten(`${agent}_${skill}`, `${agent}\n${skill}`)

/**
 * What a rule about tools is compared with: the name of the tool and, since that may end in a hash, the plain one. Otherwise a caller
 * could choose a name for its agent with which the tool escapes a rule such as `*_delete`.
 */
export const spellingsOf = ({ agent, name, skill }: Pick<Tool, "agent" | "name" | "skill">): ReadonlyArray<string> =>
  agent === null || skill === null ? [name] : [name, `${agent}_${skill}`]

/** A name that a model made up, in a form that can be stored and sent again. */
export const legal = (name: string): string => shorten(name, name)

/** A name that is not among those that exist, with the nearest of them, for the model. */
export const withNearest = (name: string, known: Iterable<string>): string => {
  const start = name.slice(0, 200)
  const near = Array.from(known, (one) => ({ one, far: distance(start, one) }))
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ one }) => one)
  return `${JSON.stringify(start)}${near.length === 0 ? "" : `. The nearest: ${near.join(", ")}`}`
}

const shorten = (plain: string, whole: string): string => {
  const known = plain.replaceAll(/[^A-Za-z0-9_-]/g, "_")
  if (known === plain && plain !== "" && plain.length <= maxLength) return plain
  const hash = createHash("sha256").update(whole).digest("hex").slice(0, 8)
  return `${known.slice(0, maxLength - hash.length - 1)}_${hash}`
}
