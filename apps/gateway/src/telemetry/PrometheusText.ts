import * as Instrument from "@bowline/runtime/unstable/telemetry/Instrument"
import { Effect } from "effect"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"

const units: { readonly [unit: string]: string } = { s: "_seconds", By: "_bytes" }

/** The name of an instrument in the text for Prometheus: with its unit, and `_total` for a counter. */
export const nameOf = ({ name, type, unit = "" }: Instrument.Instrument): string =>
  `${name.replaceAll(".", "_")}${units[unit] ?? ""}${type === "counter" ? "_total" : ""}`

/** All that this process has measured, in the text format 0.0.4 of Prometheus. */
export const text: Effect.Effect<string> = Effect.suspend(() => {
  const names = new Map(Instrument.all().map((instrument) => [instrument.name, nameOf(instrument)]))
  return PrometheusMetrics.format({ metricNameMapper: (name) => names.get(name) ?? name })
})
