/** Values by key, up to `capacity` of them. Over that, the key that nobody has read or written for the longest time goes. */
export class LruCache<K, A> {
  readonly #capacity: number
  readonly #entries = new Map<K, A>()

  constructor(capacity: number) {
    this.#capacity = capacity
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
    this.#entries.delete(key)
    this.#entries.set(key, value)
    const oldest = this.#entries.keys().next()
    if (this.#entries.size > this.#capacity && oldest.done !== true) this.#entries.delete(oldest.value)
  }

  delete(key: K): void {
    this.#entries.delete(key)
  }
}
