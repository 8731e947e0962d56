import { Result } from "effect"
import { inflateSync } from "node:zlib"

/** How far around a number of pages the dictionary is looked at that has it. */
const around = 512

/** Of objects that are compressed together: how many bytes they may have, and have when they are inflated. Producers put some hundred small ones into one stream. */
const maxCompressed = 262_144
const maxInflated = 1_048_576

/** Bytes that are inflated of one file, and places that are looked at. What tells the number of pages is little, and nobody may make us look for it for long. */
const inflatedAtMost = 8_388_608
const looksAtMost = 4_096

const opening = /^[^]{0,512}?\bstream\r?\n/

/** The number at this place, if a node of the tree of pages has it. Entries of an outline have one, too, beside other fields. */
const countAt = (bytes: Buffer, at: number): number | undefined => {
  const after = bytes.toString("latin1", at, at + around)
  const [field, digits] = /^\/Count\s*(\d{1,9})(?!\d)/.exec(after) ?? []
  if (field === undefined) return undefined
  const [behind = ""] = after.slice(field.length).split(/<<|>>|\bendobj\b/)
  const before = bytes.toString("latin1", Math.max(0, at - around), at)
  const front = before.split(/<<|>>|\bobj\b/).at(-1) ?? ""
  const isOfPages = [front, behind].some((half) => /\/Kids\b|\/Type\s*\/Pages\b/.test(half))
  // The list of kids may be long.
  return isOfPages || /\d\s+R\s*\]\s*$/.test(front) ? Number(digits) : undefined
}

/**
 * The pages that a PDF says it has, which are looked for in its bytes as they come: of the nodes of its tree of pages the root has most. Pages are not read, and of compressed objects only those that a
 * tree may be in are inflated, within bounds. Null where the number is not found, as in a file that is encrypted.
 */
export class PdfPages {
  #rest: Buffer = Buffer.alloc(0)
  #isInflating = false
  #left = inflatedAtMost
  #looks = looksAtMost
  pages: number | null = null

  /** Takes in the next bytes. They are copied where they are needed later. */
  push(chunk: Uint8Array): void {
    const bytes = Buffer.concat([this.#rest, chunk])
    this.#count(bytes)
    let at = 0
    for (;;) {
      if (this.#isInflating) {
        const end = bytes.indexOf("endstream", at)
        if (end < 0 && bytes.length - at <= maxCompressed) break
        this.#isInflating = false
        if (end >= 0) this.#inflate(bytes.subarray(at, end))
        at = end < 0 ? bytes.length : end
      }
      const found = this.#left > 0 ? bytes.indexOf("/ObjStm", at) : -1
      if (found < 0 || this.#looks-- <= 0) {
        at = Math.max(at, bytes.length - 2 * around)
        break
      }
      const start = opening.exec(bytes.toString("latin1", found, found + 2 * around))?.[0]
      // The word `stream` may be in the next bytes.
      if (start === undefined && bytes.length - found < 2 * around) {
        at = found
        break
      }
      at = found + (start ?? "/ObjStm").length
      this.#isInflating = start !== undefined
    }
    this.#rest = Buffer.from(bytes.subarray(at))
  }

  #count(bytes: Buffer): void {
    for (let at = bytes.indexOf("/Count"); at >= 0 && this.#looks > 0; at = bytes.indexOf("/Count", at + 1)) {
      this.#looks -= 1
      const count = countAt(bytes, at)
      if (count !== undefined) this.pages = Math.max(this.pages ?? 0, count)
    }
  }

  #inflate(bytes: Uint8Array): void {
    const maxOutputLength = Math.min(maxInflated, this.#left)
    const inflated = Result.try(() => inflateSync(bytes, { maxOutputLength }))
    this.#left -= Result.match(inflated, { onFailure: () => maxOutputLength, onSuccess: ({ length }) => length })
    if (Result.isSuccess(inflated)) this.#count(inflated.success)
  }
}
