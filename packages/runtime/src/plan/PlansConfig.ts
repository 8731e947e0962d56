import { Context, Duration, Layer } from "effect"

/** What an operator sets of how plans run. */
export class PlansConfig extends Context.Service<
  PlansConfig,
  {
    /** `provider/model` of the planner. */
    readonly model: string
    /** What takes its place when it cannot be used, in this order. */
    readonly fallbackModels: ReadonlyArray<string>
    /** Whether `preferences.model` may name this model. */
    readonly allowsModel: (model: string) => boolean
    /** Plans that run or wait on this replica at once. */
    readonly maxPlans: number
    readonly leaseTtl: Duration.Duration
    /** How long running plans may go on when the gateway shuts down. */
    readonly shutdownGrace: Duration.Duration
    /** Tokens, of a model that is not in the table. */
    readonly contextWindow: number
    /** Of every model; without it the model says, as `idleTimeout` does. */
    readonly firstTokenTimeout: Duration.Duration | undefined
    readonly idleTimeout: Duration.Duration | undefined
    readonly attemptTimeout: Duration.Duration
    /** Retries of a step, and the bound of the first wait. */
    readonly maxRetries: number
    readonly retryBase: Duration.Duration
  }
>()("@bowline/runtime/plan/PlansConfig") {
  /** What is not said is as by default; then no plan may name another model. */
  static readonly layer = (
    given: Pick<PlansConfig["Service"], "model"> & Partial<PlansConfig["Service"]>
  ): Layer.Layer<PlansConfig> => Layer.succeed(PlansConfig, { ...defaults, ...given })
}

const defaults: Omit<PlansConfig["Service"], "model"> = {
  fallbackModels: [],
  allowsModel: () => false,
  maxPlans: 1_000,
  leaseTtl: Duration.seconds(15),
  shutdownGrace: Duration.seconds(30),
  contextWindow: 128_000,
  firstTokenTimeout: undefined,
  idleTimeout: undefined,
  attemptTimeout: Duration.seconds(1_800),
  maxRetries: 3,
  retryBase: Duration.seconds(1)
}
