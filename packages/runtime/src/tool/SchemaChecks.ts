import { Context, Effect } from "effect"
import { LruCache } from "../process/LruCache.ts"
import * as Validation from "./internal/Validation.ts"
import * as ValidationThread from "./internal/ValidationThread.ts"

/**
 * Makes what checks JSON against the schemas of strangers: a thread of its own, which such a schema cannot hold up for long. A simulation has no
 * threads, and brings `inPlace`.
 */
export const SchemaChecks = Context.Reference<typeof ValidationThread.make>("@bowline/runtime/tool/SchemaChecks", {
  defaultValue: () => ValidationThread.make
})

const kept = new LruCache<string, Validation.Validation>(100)

/** The JSON of a schema as a function. The last hundred are kept: an app, or a simulated process, makes the same ones again and again. */
export const validationOf = (schema: string): Validation.Validation => {
  const validation = kept.get(schema) ?? Validation.make(JSON.parse(schema))
  kept.set(schema, validation)
  return validation
}

/** Checks in this thread, without a limit: for schemas that are known to be harmless. */
export const inPlace: typeof ValidationThread.make = Effect.succeed({
  check: ({ input, schema }) => Effect.sync(() => validationOf(schema).check(JSON.parse(input)))
})
