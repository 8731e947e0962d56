import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import { isStrict } from "@bowline/runtime/unstable/provider/StrictSchema"

/**
 * The schema of an answer as both wires have it. The server wants that of an object; one beyond its own part of JSON Schema is sent as
 * something to go by.
 */
export const answerSchema = ({ outputSchema }: ProviderRequest): object | undefined =>
  outputSchema === undefined || outputSchema["type"] !== "object"
    ? undefined
    : { name: "answer", schema: outputSchema, strict: isStrict(outputSchema, { needsAll: true }) }
