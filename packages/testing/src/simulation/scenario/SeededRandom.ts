/** Draws numbers from a seed (sfc32). The same seed draws the same numbers on every machine. */
export class SeededRandom {
  readonly #seed: string
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: string) {
    this.#seed = seed
    let hash = 0x811c9dc5
    const word = (salt: number) => {
      for (let index = 0; index < seed.length; index++) hash = Math.imul(hash ^ seed.charCodeAt(index), 0x01000193)
      hash = Math.imul(hash ^ salt ^ (hash >>> 15), 0x85ebca6b)
      return (hash ^= hash >>> 13) | 0
    }
    this.#a = word(1)
    this.#b = word(2)
    this.#c = word(3)
    for (let index = 0; index < 12; index++) this.next()
  }

  /** One with a seed of its own: how much is drawn here does not change what is drawn there. */
  of(name: string): SeededRandom {
    return new SeededRandom(`${this.#seed}/${name}`)
  }

  /** 32 bits. */
  bits(): number {
    const drawn = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + drawn) | 0
    return drawn >>> 0
  }

  /** From 0 to 1, without 1. */
  next(): number {
    return this.bits() / 4_294_967_296
  }

  /** A whole number, both bounds included. */
  int(minimum: number, maximum: number): number {
    return minimum + Math.floor(this.next() * (maximum - minimum + 1))
  }

  chance(percent: number): boolean {
    return this.next() * 100 < percent
  }

  pick<A>(list: readonly [A, ...ReadonlyArray<A>]): A {
    return list[this.int(0, list.length - 1)] ?? list[0]
  }

  uuid(): string {
    const hex = Array.from({ length: 4 }, () => this.bits().toString(16).padStart(8, "0")).join("")
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
  }
}
