import { parentPort } from "node:worker_threads"
import { LruCache } from "../../process/LruCache.ts"
import * as Validation from "./Validation.ts"

/** Arguments that are to fit a schema, both as JSON. */
export interface Candidate {
  readonly schema: string
  readonly input: string
}

/** How many characters of schemas and of their code are kept. */
const maxKept = 2_097_152

const kept = new LruCache<string, Validation.Validation>(maxKept, ({ size }, schema) => schema.length + size)

const validationOf = (schema: string): Validation.Validation => {
  const known = kept.get(schema)
  if (known !== undefined) return known
  const validation = Validation.make(JSON.parse(schema))
  kept.set(schema, validation)
  return validation
}

parentPort?.on("message", ({ input, schema }: Candidate) => {
  parentPort?.postMessage(validationOf(schema).check(JSON.parse(input)))
})
// The first answer says that the thread has started, and has made what it needs for any schema.
parentPort?.postMessage(Validation.make({}).check({}))
