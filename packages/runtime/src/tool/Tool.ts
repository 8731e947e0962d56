import type { Schema } from "effect"

/** A JSON Schema 2020-12. */
export type JsonSchema = { readonly [key: string]: Schema.Json }
