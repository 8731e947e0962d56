const capacity = 1_000

/** What is remembered by endpoint, of 1,000 at most: the one that was not asked for the longest is forgotten first. */
export class Remembered<A> {
  readonly #known = new Map<string, A>()

  get endpoints(): ReadonlyArray<string> {
    return Array.from(this.#known.keys())
  }

  get(endpoint: string): A | undefined {
    const known = this.#known.get(endpoint)
    if (known !== undefined) this.set(endpoint, known)
    return known
  }

  set(endpoint: string, known: A): void {
    this.#known.delete(endpoint)
    this.#known.set(endpoint, known)
    const oldest = this.#known.keys().next()
    if (this.#known.size > capacity && oldest.done !== true) this.#known.delete(oldest.value)
  }
}
