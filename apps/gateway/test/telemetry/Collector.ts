import { type Host, json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { Effect } from "effect"

/** A value of OTLP's JSON. */
interface AnyValue {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: ReadonlyArray<AnyValue> }
}

type Attributes = ReadonlyArray<{ readonly key: string; readonly value: AnyValue }>

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

const accepts: Host = () => Effect.succeed(json(200, {}))

/** A collector that takes OTLP in JSON, and the variables that lead to it. */
export const serve = Effect.fnUntraced(function* (host: Host = accepts) {
  const { requests, url } = yield* (yield* Network).serve(host)
  const bodies = (path: string) =>
    Effect.map(requests.all, (all) =>
      all.filter((request) => request.url.pathname === path).map(({ body }) => JSON.parse(body) as unknown)
    )
  return {
    requests,
    settings: { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" },
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
