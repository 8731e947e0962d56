/** When the first plan of a filled store was created, and how long after that each of the next ones, in milliseconds. */
const first = 1_750_000_000_000
const between = 20

/** The id of the n-th plan of a filled store: ordered by time, as the ones that the gateway makes. */
export const planOf = (n: number): string => {
  const time = (first + between * n).toString(16).padStart(12, "0")
  return `plan_${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${n.toString(16).padStart(12, "0")}`
}

/** The same in SQL, of a session, a plan or a message. */
export const idOf = (prefix: string, n: string): string => {
  const time = `lpad(to_hex(${first}::bigint + ${between} * (${n})::bigint), 12, '0')`
  return `'${prefix}_' || substr(${time}, 1, 8) || '-' || substr(${time}, 9) || '-7000-8000-' || lpad(to_hex((${n})::bigint), 12, '0')`
}
