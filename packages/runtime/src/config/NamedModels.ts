import { Context, Layer } from "effect"

/**
 * Whether the configuration names this model, as `provider/model`. Callers may name others, any number of them, where a glob allows it: nothing is
 * kept of these that grows with their number. By default every model is one that the configuration names.
 */
export const NamedModels = Context.Reference<(model: string) => boolean>("@bowline/runtime/config/NamedModels", {
  defaultValue: () => () => true
})

/** Only these. */
export const layer = (models: ReadonlySet<string>): Layer.Layer<never> =>
  Layer.succeed(NamedModels, (model) => models.has(model))
