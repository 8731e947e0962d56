import official from "@opentelemetry/otlp-transformer/build/src/generated/root.js"
import { type Host, json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { Effect } from "effect"

/** A value of OTLP's JSON. */
export interface AnyValue {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: ReadonlyArray<AnyValue> }
}

export type Attributes = ReadonlyArray<{ readonly key: string; readonly value: AnyValue }>

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: Attributes
  readonly status: { readonly code: number; readonly message?: string }
}

interface Line {
  readonly body: AnyValue
  readonly attributes: Attributes
  readonly traceId?: string
}

interface Traces {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: Attributes }
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
  }>
}

interface Logs {
  readonly resourceLogs: ReadonlyArray<{
    readonly scopeLogs: ReadonlyArray<{ readonly logRecords: ReadonlyArray<Line> }>
  }>
}

const valueOf = ({ arrayValue, ...scalar }: AnyValue): unknown =>
  arrayValue === undefined ? Object.values(scalar)[0] : arrayValue.values.map(valueOf)

export const attributesOf = (attributes: Attributes): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]))

interface Decoder<A> {
  readonly decode: (bytes: Uint8Array) => object
  readonly toObject: (message: object, options: { readonly longs: typeof Number; readonly arrays: true }) => A
}

interface Metrics {
  readonly resourceMetrics: ReadonlyArray<{
    readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<Metric> }>
  }>
}

interface Points {
  readonly dataPoints: ReadonlyArray<{
    readonly attributes: Attributes
    readonly explicitBounds?: ReadonlyArray<number>
  }>
}

interface Metric {
  readonly name: string
  readonly unit: string
  readonly histogram?: Points
  readonly sum?: Points
  readonly gauge?: Points
}

/** Its types name a package that is not installed here. */
const { metrics, trace } = (
  official as unknown as {
    readonly opentelemetry: {
      readonly proto: {
        readonly collector: {
          readonly trace: { readonly v1: { readonly ExportTraceServiceRequest: Decoder<Traces> } }
          readonly metrics: { readonly v1: { readonly ExportMetricsServiceRequest: Decoder<Metrics> } }
        }
      }
    }
  }
).opentelemetry.proto.collector

const decode =
  <A>(decoder: Decoder<A>) =>
  (body: string): A =>
    decoder.toObject(decoder.decode(Buffer.from(body, "latin1")), { longs: Number, arrays: true })

const accepts: Host = () => Effect.succeed(json(200, {}))

/** A collector that takes OTLP in JSON, and the variables that lead to it. */
export const serve = Effect.fnUntraced(function* (host: Host = accepts) {
  const { requests, url } = yield* (yield* Network).serve(host)
  const sent = (path: string) =>
    Effect.map(requests.all, (all) => all.filter(({ url }) => url.pathname === path).map(({ body }) => body))
  const bodies = (path: string) => Effect.map(sent(path), (all) => all.map((body) => JSON.parse(body) as unknown))
  return {
    requests,
    settings: { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" },
    /** The same in Protobuf, as the official definitions decode it. */
    decoded: Effect.all({
      spans: Effect.map(sent("/v1/traces"), (all) =>
        all
          .map(decode(trace.v1.ExportTraceServiceRequest))
          .flatMap(({ resourceSpans }) =>
            resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
          )
      ),
      metrics: Effect.map(sent("/v1/metrics"), (all) =>
        all
          .map(decode(metrics.v1.ExportMetricsServiceRequest))
          .flatMap(({ resourceMetrics }) =>
            resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
          )
      )
    }),
    spans: Effect.map(bodies("/v1/traces"), (all) =>
      (all as ReadonlyArray<Traces>).flatMap(({ resourceSpans }) =>
        resourceSpans.flatMap(({ resource, scopeSpans }) =>
          scopeSpans.flatMap(({ spans }) =>
            spans.map((span) => ({
              ...span,
              attributes: attributesOf(span.attributes),
              resource: attributesOf(resource.attributes)
            }))
          )
        )
      )
    ),
    lines: Effect.map(bodies("/v1/logs"), (all) =>
      (all as ReadonlyArray<Logs>).flatMap(({ resourceLogs }) =>
        resourceLogs.flatMap(({ scopeLogs }) =>
          scopeLogs.flatMap(({ logRecords }) =>
            logRecords.map(({ attributes, body, traceId }) => ({
              message: valueOf(body),
              attributes: attributesOf(attributes),
              traceId
            }))
          )
        )
      )
    )
  }
})

export type CollectedSpan = Effect.Success<Effect.Success<ReturnType<typeof serve>>["spans"]>[number]

/** The spans as a tree, children behind their parents in the order of their ends, indented by two spaces. */
export const treeOf = (spans: ReadonlyArray<CollectedSpan>, root: string): ReadonlyArray<string> =>
  spans
    .filter(({ parentSpanId }) => parentSpanId === root)
    .flatMap(({ name, spanId }) => [name, ...treeOf(spans, spanId).map((line) => `  ${line}`)])
