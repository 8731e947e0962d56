import { Effect, Metric } from "effect"

/** The counts or values of all series of this metric that have these labels, together. */
export const measured = (id: string, labels: Readonly<Record<string, string>> = {}): Effect.Effect<number> =>
  Effect.map(Metric.snapshot, (metrics) =>
    metrics
      .filter((metric) => metric.id === id)
      .filter(({ attributes = {} }) => Object.entries(labels).every(([name, value]) => attributes[name] === value))
      .map(({ state }) => Number("count" in state ? state.count : "value" in state ? state.value : Number.NaN))
      .reduce((sum, value) => sum + value, 0)
  )

/** Measures apart from all other tests. */
export const apart = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => Effect.provideService(effect, Metric.MetricRegistry, new Map()))
