import { parentPort } from "node:worker_threads"
import * as Validation from "./Validation.ts"

/** Arguments that are to fit a schema, both as JSON. */
export interface Candidate {
  readonly schema: string
  readonly input: string
}

/** How many characters of schemas and of their code are kept. */
const maxKept = 2_097_152

/** Those that were used last stand last. */
const kept = new Map<string, Validation.Validation>()
let size = 0

const validationOf = (schema: string): Validation.Validation => {
  const known = kept.get(schema)
  const validation = known ?? Validation.make(JSON.parse(schema))
  if (known === undefined) size += schema.length + validation.size
  kept.delete(schema)
  kept.set(schema, validation)
  for (const [oldest, { size: code }] of kept) {
    if (size <= maxKept) break
    kept.delete(oldest)
    size -= oldest.length + code
  }
  return validation
}

parentPort?.on("message", ({ input, schema }: Candidate) => {
  parentPort?.postMessage(validationOf(schema).check(JSON.parse(input)))
})
// The first answer says that the thread has started, and has made what it needs for any schema.
parentPort?.postMessage(Validation.make({}).check({}))
