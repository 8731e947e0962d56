/**
 * Values by key, up to a `capacity` that each of them takes one of, or as much as `weightOf` says. Over that, it drops the keys that nobody has read or
 * written for the longest time.
 */
export class LruCache<K, A> {
  readonly #capacity: number
  readonly #weightOf: (value: A, key: K) => number
  readonly #entries = new Map<K, A>()
  #weight = 0

  constructor(capacity: number, weightOf: (value: A, key: K) => number = () => 1) {
    this.#capacity = capacity
    this.#weightOf = weightOf
  }

  /** The keys, the least recently used one first. */
  get keys(): ReadonlyArray<K> {
    return Array.from(this.#entries.keys())
  }

  get(key: K): A | undefined {
    const value = this.#entries.get(key)
    if (value !== undefined) this.set(key, value)
    return value
  }

  /** Reads a value without counting as a use of it. */
  peek(key: K): A | undefined {
    return this.#entries.get(key)
  }

  set(key: K, value: A): void {
    this.delete(key)
    this.#entries.set(key, value)
    this.#weight += this.#weightOf(value, key)
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#capacity) break
      this.delete(oldest)
    }
  }

  delete(key: K): void {
    const value = this.#entries.get(key)
    if (value !== undefined) this.#weight -= this.#weightOf(value, key)
    this.#entries.delete(key)
  }
}
