import { Clock, Context, Effect, type Exit, Metric, type Scope } from "effect"
import * as Monotonic from "../process/Monotonic.ts"

/** The values of a label: all of them, or in words what bounds their number. Never what a caller, a model or a peer writes. */
export type LabelValues = ReadonlyArray<string> | string

type Labels = Readonly<Record<string, LabelValues>>

/** A label without a value is left out. */
type LabelsOf<L extends Labels> = {
  readonly [K in keyof L]: L[K] extends ReadonlyArray<infer Value extends string> ? Value : string | undefined
}

interface Description<L extends Labels> {
  /** As OTLP exports it. */
  readonly name: string
  readonly description: string
  /** In UCUM. Counts of things have none. */
  readonly unit?: "s" | "By" | "{token}" | "{inference_call}" | "{tool_call}"
  readonly labels?: L
}

type Anything = Context.Context<never>
type Attributes = Record<string, string>
type Make<M> = (options: { readonly description: string; readonly attributes: Attributes }) => M

/** An instrument with more combinations of labels shows only those that have counted something. */
const maxShown = 64

const instruments: Array<Instrument> = []

/** Every instrument of the modules that are loaded. */
export const all = (): ReadonlyArray<Instrument> => instruments

/**
 * A metric with its labels. It keeps its series, since to make one costs more than to count. What they have counted belongs to
 * the `MetricRegistry` of the context.
 */
export class Instrument<
  const L extends Labels = Labels,
  M extends Metric.Metric<number, unknown> = Metric.Metric<number, unknown>
> {
  readonly name: string
  readonly type: "counter" | "gauge" | "histogram"
  readonly description: string
  readonly unit: string | undefined
  readonly labels: Labels
  readonly #names: ReadonlyArray<string>
  readonly #make: Make<M>
  readonly #series = new Map<string, M>()

  constructor(type: Instrument["type"], { name, description, unit, labels }: Description<L>, make: Make<M>) {
    this.name = name
    this.type = type
    this.description = description
    this.unit = unit
    this.labels = labels ?? {}
    this.#names = Object.keys(this.labels)
    this.#make = make
    instruments.push(this)
  }

  /** The series with these labels. */
  of(labels: LabelsOf<L>): M {
    return this.#at(this.#names.map((name) => labels[name]))
  }

  /** Adds to a counter, or records a value in a histogram. */
  updateUnsafe(input: number, labels: LabelsOf<L>, context: Anything): void {
    this.of(labels).updateUnsafe(input, context)
  }

  update(input: number, labels: LabelsOf<L>): Effect.Effect<void> {
    return Effect.contextWith((context: Anything) => Effect.sync(() => this.updateUnsafe(input, labels, context)))
  }

  /**
   * Shows all series before anything was counted, if the values of their labels are known and few: a rate over a series that
   * begins with its first event would miss that event.
   */
  showUnsafe(context: Anything): void {
    const known = Object.values(this.labels).filter((values) => typeof values !== "string")
    if (known.length < this.#names.length) return
    const combinations = known.reduce<ReadonlyArray<ReadonlyArray<string>>>(
      (rows, values) => rows.flatMap((row) => values.map((value) => [...row, value])),
      [[]]
    )
    if (combinations.length <= maxShown) for (const values of combinations) this.#at(values).valueUnsafe(context)
  }

  #at(values: ReadonlyArray<string | undefined>): M {
    const key = values.join("\n")
    const known = this.#series.get(key)
    if (known !== undefined) return known
    // Effect's exporter takes the unit of a metric from this attribute, and from nowhere else.
    const attributes: Attributes = this.unit === undefined ? {} : { unit: this.unit }
    for (const [index, name] of this.#names.entries()) {
      const value = values[index]
      if (value !== undefined) attributes[name] = value
    }
    const series = this.#make({ description: this.description, attributes })
    this.#series.set(key, series)
    return series
  }
}

/** Shows the series of every instrument, as far as they are known before anything was counted. */
export const showAll: Effect.Effect<void> = Effect.contextWith((context: Anything) =>
  Effect.sync(() => instruments.forEach((instrument) => instrument.showUnsafe(context)))
)

export const counter = <const L extends Labels>(description: Description<L>) =>
  new Instrument("counter", description, (options) =>
    Metric.counter(description.name, { ...options, incremental: true })
  )

export const gauge = <const L extends Labels>(description: Description<L>) =>
  new Instrument("gauge", description, (options) => Metric.gauge(description.name, options))

/** From 10 ms to 5 minutes. */
export const seconds = Array.from({ length: 16 }, (_, power) => 2 ** power / 100)

/** Its boundaries are seconds, unless there are others. */
export const histogram = <const L extends Labels>({
  boundaries = seconds,
  ...description
}: Description<L> & { readonly boundaries?: ReadonlyArray<number> }) =>
  new Instrument("histogram", description, (options) => Metric.histogram(description.name, { ...options, boundaries }))

const registered = <State>(
  series: Metric.Metric<number, State>,
  get: () => State
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.contextWith((context: Anything) =>
    Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => Metric.registerUnsafe(series, context, { get, update: ignore, modify: ignore })),
        (registration) => Effect.sync(() => registration.remove())
      )
    )
  )

const ignore = (): void => undefined

/** Reads a gauge whenever somebody asks for it, until the scope closes. */
export const observe = (series: Metric.Gauge<number>, read: () => number): Effect.Effect<void, never, Scope.Scope> =>
  registered(series, () => ({ value: read() }))

/** The same for a counter, of which somebody else knows the count. */
export const observeCount = (
  series: Metric.Counter<number>,
  read: () => number
): Effect.Effect<void, never, Scope.Scope> => registered(series, () => ({ count: read(), incremental: true }))

/** Tells how many seconds the effect has taken, however it ends. */
export const timed =
  <Result = unknown>(record: (seconds: number, exit: Exit.Exit<Result, unknown>, context: Anything) => void) =>
  <A extends Result, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.contextWith((context: Context.Context<R>) => {
      const clock = Context.get(context, Clock.Clock)
      const since = Monotonic.millis(clock)
      return Effect.onExit(self, (exit) =>
        Effect.sync(() => record((Monotonic.millis(clock) - since) / 1_000, exit, context))
      )
    })
