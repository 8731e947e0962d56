import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Context, Effect, Option, Redacted, Schema } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"

/** What of a request is kept until its plan is over, so that the next process can go on with it. */
export interface StoredRequest {
  /** The request as it came, without its `history` and its `prior_summary`, which the session keeps, and without its secrets. */
  readonly request: Schema.Json
  /** The secrets, encrypted; none if there are none, or if they may not be kept. */
  readonly secrets: string | null
}
