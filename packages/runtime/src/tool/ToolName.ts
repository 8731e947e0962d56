import { createHash } from "node:crypto"

const maxLength = 64

/**
 * `<agent>_<skill>` in the characters that every provider takes. One that is too long, or lost a character, ends in a
 * stable hash of the two names, so that two tools stay two.
 */
export const forSkill = (agent: string, skill: string): string => {
  const plain = `${agent}_${skill}`
  const legal = plain.replaceAll(/[^A-Za-z0-9_-]/g, "_")
  if (legal === plain && plain.length <= maxLength) return plain
  const hash = createHash("sha256").update(`${agent}\n${skill}`).digest("hex").slice(0, 8)
  return `${legal.slice(0, maxLength - hash.length - 1)}_${hash}`
}
