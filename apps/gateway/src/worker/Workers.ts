import * as Instrument from "@bowline/runtime/unstable/telemetry/Instrument"
import { Duration, Effect, Layer, Option } from "effect"
import { hangUps } from "../config/ConfigReload.ts"
import type { GatewayConfig } from "../config/GatewayConfig.ts"
import { formatProblem } from "../config/setting/ConfigProblem.ts"
import type { InvalidConfiguration } from "../config/setting/ReadSettings.ts"
import * as Log from "../telemetry/Log.ts"
import * as ClusterWorkers from "./ClusterWorkers.ts"
import { supervise } from "./Supervisor.ts"

type Config = GatewayConfig["Service"]

/** How long a worker that leaves may take beside its idle connections and the grace of its plans. Then it is killed. */
const extraPatience = Duration.seconds(30)

const patienceOf = ({ http, plans }: Config): Duration.Duration =>
  Duration.sum(Duration.sum(http.keepAliveTimeout, plans.shutdownGrace), extraPatience)

/**
 * Runs the gateway in `config.workers` processes, and never ends by itself. On SIGHUP they are replaced one after the other, if what `read`
 * reads then can be used.
 */
export const layer = (config: Config, read: Effect.Effect<Config, InvalidConfiguration>) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const nextPatience = read.pipe(
        Effect.map((next) => Option.some(patienceOf(next))),
        Effect.catchTag("InvalidConfiguration", ({ problems }) =>
          Effect.logWarning("configuration_unusable").pipe(
            Effect.annotateLogs({ problems: problems.map(formatProblem) }),
            Effect.as(Option.none<Duration.Duration>())
          )
        )
      )
      return yield* supervise({
        count: config.workers,
        restartAsked: yield* hangUps,
        fork: yield* ClusterWorkers.make,
        patience: patienceOf(config),
        nextPatience
      })
    })
  ).pipe(Layer.provide(Layer.effectDiscard(Instrument.showAll)), Layer.provide(Log.layer(config.log)))
