/** Integers in as few bytes as they need, 7 bits in each; those below 0 are the odd ones. */
export const toBytes = (numbers: ReadonlyArray<number>): Buffer => {
  const bytes: Array<number> = []
  for (const number of numbers) {
    let rest = number < 0 ? -2 * number - 1 : 2 * number
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128))
    bytes.push(rest)
  }
  return Buffer.from(bytes)
}

/** Reads such integers from the first byte on. */
export class Numbers {
  readonly #bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  next(): number {
    let [number, scale] = [0, 1]
    for (;;) {
      const byte = this.#bytes.readUInt8(this.at++)
      number += (byte % 128) * scale
      if (byte < 128) return number % 2 === 0 ? number / 2 : -(number + 1) / 2
      scale *= 128
    }
  }

  take(count: number): ReadonlyArray<number> {
    return Array.from({ length: count }, () => this.next())
  }
}
