/** What a value takes in memory, in bytes: an estimate. */
export const sizeOf = (value: unknown): number => {
  let size = 0
  const rest = [value]
  while (rest.length > 0) {
    const next = rest.pop()
    size += 16
    if (typeof next === "string") size += next.length
    if (typeof next !== "object" || next === null) continue
    size += 32
    for (const part of Object.values(next)) rest.push(part)
  }
  return size
}
