import { createHash } from "node:crypto"

const maxLength = 64

/**
 * `<agent>_<skill>` in the characters that every provider takes. One that is too long, or lost a character, ends in a
 * stable hash of the two names, so that two tools stay two.
 */
export const forSkill = (agent: string, skill: string): string => shorten(`${agent}_${skill}`, `${agent}\n${skill}`)

/** What a model made up as a name, as one that can be kept and replayed. */
export const legal = (name: string): string => shorten(name, name)

const shorten = (plain: string, whole: string): string => {
  const known = plain.replaceAll(/[^A-Za-z0-9_-]/g, "_")
  if (known === plain && plain !== "" && plain.length <= maxLength) return plain
  const hash = createHash("sha256").update(whole).digest("hex").slice(0, 8)
  return `${known.slice(0, maxLength - hash.length - 1)}_${hash}`
}
