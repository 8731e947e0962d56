import { Sampling } from "@bowline/domain/plan/PlanRequest"
import { Schema } from "effect"

/** A field that may also be null, which means that it is not there. */
export const given = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const { max_tokens, prompt_cache_key, reasoning_effort, seed, stop, temperature, top_p } = Sampling.fields

const Stop = Schema.Union([Schema.String.check(Schema.isBetweenLength(1, 512)), stop.schema]).annotate({
  message: "Expected a text that is not empty, or at most 4 of them"
})

/** The fields of a body that say how the model is to answer. */
export const fields = {
  temperature: given(temperature.schema),
  top_p: given(top_p.schema),
  stop: given(Stop),
  seed: given(seed.schema),
  reasoning_effort: given(reasoning_effort.schema),
  prompt_cache_key: given(prompt_cache_key.schema),
  max_tokens: given(max_tokens.schema),
  max_completion_tokens: given(max_tokens.schema)
}

const Fields = Schema.Struct(fields)

/** The sampling of a plan; undefined if the body says nothing of it. */
export const read = (body: typeof Fields.Type): Sampling | undefined => {
  const { max_completion_tokens, max_tokens, prompt_cache_key, reasoning_effort, seed, stop, temperature, top_p } = body
  const limit = max_completion_tokens ?? max_tokens ?? undefined
  const texts = typeof stop === "string" ? [stop] : (stop ?? [])
  const sampling: Sampling = {
    ...(typeof temperature === "number" && { temperature }),
    ...(typeof top_p === "number" && { top_p }),
    ...(texts.length > 0 && { stop: texts }),
    ...(typeof seed === "number" && { seed }),
    ...(typeof reasoning_effort === "string" && { reasoning_effort }),
    ...(typeof prompt_cache_key === "string" && { prompt_cache_key }),
    ...(limit !== undefined && { max_tokens: limit })
  }
  return Object.keys(sampling).length === 0 ? undefined : sampling
}
