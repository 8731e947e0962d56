import { addRanges, without, type Range } from "./Range.ts"
import { SecretSearch } from "./SecretSearch.ts"

/** A shorter beginning of a secret is found in innocent words. */
const shortest = 4

/**
 * Redacts texts that follow one another. A secret may be split over them, so they are searched as one text, each of them
 * once: the time is linear in all texts.
 */
export class RedactedSequence {
  readonly #secrets: () => Iterable<string>
  readonly #searches = new Map<string, readonly [SecretSearch, SecretSearch]>()
  readonly #found: Array<Range> = []
  /** How many of the first ranges end in texts that are already shown. */
  #passed = 0
  #length = 0

  constructor(secrets: () => Iterable<string>) {
    this.#secrets = secrets
  }

  /** The length of all texts: the offset of the next one. */
  get length(): number {
    return this.#length
  }

  /** Adds a text. Gives the offset at which a secret may begin that goes on behind the text, else the length of all texts. */
  add(text: string): number {
    for (const secret of this.#secrets()) {
      if (this.#searches.has(secret)) continue
      const search = (unescapes: boolean) => new SecretSearch(secret, unescapes, this.#length)
      this.#searches.set(secret, [search(false), search(true)])
    }
    this.#length += text.length
    const searches = [...this.#searches.values()].flat()
    addRanges(
      this.#found,
      searches.flatMap((search) => search.next(text)),
      this.#passed
    )
    const open = searches.flatMap(({ open }) => (open.length < shortest ? [] : [open.start]))
    return Math.min(this.#length, ...open)
  }

  /** Shows an added text, or several as one, without their secrets. Texts are shown in their order. */
  show(text: string, offset: number): string {
    const end = offset + text.length
    const first = this.#passed
    while ((this.#found[this.#passed]?.end ?? Infinity) <= end) this.#passed++
    const shown = without(text, offset, this.#found.slice(first, this.#passed + 1))
    if (this.#passed > this.#found.length / 2) {
      this.#found.splice(0, this.#passed)
      this.#passed = 0
    }
    return shown
  }
}
