import { Api } from "@bowline/protocol/api/Api"
import type { ReadinessCheck } from "@bowline/protocol/unstable/gateway/GatewayApi"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { answer, Refused } from "../http/Refusals.ts"
import * as PrometheusText from "../telemetry/PrometheusText.ts"
import * as Siblings from "../worker/Siblings.ts"

/** A database that does not answer within this time counts as unavailable. */
const answerTimeout = "2 seconds"

/**
 * Liveness, which asks nobody, readiness and metrics. Two things need no check: a provider, since without a configured one the gateway
 * uses the demo's, and the migrations, since the gateway listens when they are done.
 */
export const layer = HttpApiBuilder.group(
  Api,
  "gateway",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const store = yield* PlanStore

    // Once a second, however many ask: a storm of probes must not become one of statements.
    const database = yield* store.isWritable.pipe(
      Effect.map((isWritable) => ({ database: true, database_writable: isWritable })),
      Effect.timeout(answerTimeout),
      Effect.orElseSucceed(() => ({ database: false })),
      Effect.cachedWithTTL("1 second")
    )
    const checks = Effect.gen(function* (): Effect.fn.Return<{ readonly [check in ReadinessCheck]?: boolean }> {
      const draining = !(yield* plans.isDraining)
      return { ...(yield* database), leases: !(yield* plans.isOverdue), draining }
    })

    const workers = yield* Siblings.join({
      metrics: PrometheusText.text,
      isReady: Effect.map(checks, (passed) => String(!Object.values(passed).includes(false)))
    })

    return handlers.handleAll({
      health: () => Effect.succeed({ status: "ok" as const }),
      ready: () =>
        Effect.gen(function* () {
          const passed = yield* checks
          const failed = Object.entries(passed).flatMap(([name, holds]) => (holds ? [] : [name]))
          // A connection may come to any of several workers.
          if (failed.length === 0 || (yield* workers.isAnyReady)) return { status: "ready" as const }
          const code = passed.draining ? "unavailable" : "draining"
          return yield* new Refused({ code, detail: `Not ready: ${failed.join(", ")}`, failed })
        }).pipe(answer),
      metrics: () => workers.metrics
    })
  })
)
