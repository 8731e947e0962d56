import { Api } from "@bowline/protocol/api/Api"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStore } from "@bowline/runtime/store/PlanStore"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { answer, Refused } from "../http/Refusals.ts"
import * as PrometheusText from "../telemetry/PrometheusText.ts"

/** A database that does not answer within this time counts as unavailable. */
const pingTimeout = "2 seconds"

/** Liveness, readiness and metrics. A provider needs no check: without a configured one the gateway uses the demo's. */
export const layer = HttpApiBuilder.group(
  Api,
  "gateway",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const store = yield* PlanStore

    const checks = {
      database: store.ping.pipe(
        Effect.as(true),
        Effect.timeoutOrElse({ duration: pingTimeout, orElse: () => Effect.succeed(false) }),
        Effect.orElseSucceed(() => false)
      ),
      draining: Effect.map(plans.isDraining, (isDraining) => !isDraining)
    }

    return handlers.handleAll({
      health: () => Effect.succeed({ status: "ok" as const }),
      ready: () =>
        Effect.gen(function* () {
          const passed = yield* Effect.all(checks, { concurrency: "unbounded" })
          const failed = Object.entries(passed).flatMap(([name, holds]) => (holds ? [] : [name]))
          if (failed.length === 0) return { status: "ready" as const }
          const code = passed.draining ? "unavailable" : "draining"
          return yield* new Refused({ code, detail: `Not ready: ${failed.join(", ")}`, failed })
        }).pipe(answer),
      metrics: () => PrometheusText.text
    })
  })
)
