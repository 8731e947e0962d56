import { brotliCompressSync, gzipSync } from "node:zlib"
import type { JsonSchema, Operation } from "../http/Operations.ts"
import type { Draw } from "./Draw.ts"
import { body, text } from "./HostileValue.ts"

export interface Target {
  readonly operations: ReadonlyArray<Operation>
  readonly definitions: Readonly<Record<string, JsonSchema>>
  /** The key of the caller who means harm. */
  readonly key: string
  /** What parameters of paths may be: own and other callers' ids. */
  readonly ids: readonly [string, ...ReadonlyArray<string>]
}

/** 50 MB once it is unpacked. */
const bomb = gzipSync(Buffer.alloc(50_000_000))

type Header = readonly [name: string, value: string]

/** What a request says. */
export interface Message {
  readonly method: string
  readonly target: string
  readonly headers: ReadonlyArray<Header>
  readonly body: Buffer
}

/** Node takes each of these. Those that no route has come as often as those that are. */
const methods = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PROPFIND",
  "QUERY",
  "PURGE"
] as const

/** As a header carries it: in latin1, and without what would end it. */
const headerText = (draw: Draw) =>
  text(draw)
    .replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "")
    .slice(0, 3_000)

const nasty: ReadonlyArray<readonly [name: string, ...values: ReadonlyArray<string>]> = [
  [
    "accept",
    "application/json",
    "*/*",
    "text/html",
    ";q=",
    "application/json;q=9",
    ",,,",
    "application/json, text/event-stream;q=0"
  ],
  ["accept-encoding", "gzip", "br;q=x", "identity;q=0"],
  ["authorization", "", "Bearer", "Bearer \xff", "Basic Og==", "Bearer a b", "bearer key-of-nobody"],
  [
    "content-type",
    "",
    "text/plain",
    "application/json; charset=utf-16",
    "application/json;;",
    "multipart/form-data",
    "application/x+json"
  ],
  ["content-encoding", "gzip", "br", "identity", "x", "gzip, gzip"],
  ["content-language", "x"],
  ["expect", "100-continue", "200-ok", ""],
  ["cookie", "a=b; __proto__=1", "="],
  ["host", "", "localhost", "evil.example", "localhost:99999", "[::1", "a b", "127.0.0.1@evil.example"],
  ["origin", "null", "http://evil.example", "http://127.0.0.1", "://"],
  ["sec-fetch-site", "cross-site", "same-origin"],
  ["referer", "http://evil.example/"],
  ["access-control-request-method", "POST"],
  ["range", "bytes=0-1", "bytes=-9999999999999"],
  ["if-none-match", "*"],
  ["if-modified-since", "never"],
  ["traceparent", "00-0-0-0", "00-00000000000000000000000000000000-0000000000000000-00", "ff-x"],
  ["tracestate", "=,=", "a=b"],
  ["baggage", "a=%ff", ";"],
  ["b3", "0", "1-1-1"],
  ["x-request-id", "", "\xe4", "x"],
  ["x-forwarded-for", "127.0.0.1"],
  ["x-forwarded-host", "evil.example"],
  ["x-forwarded-proto", "https, ftp"],
  ["forwarded", "for=;host=;proto="],
  ["x-http-method-override", "DELETE"],
  ["idempotency-key", "", "k", "same", "\xff"],
  ["last-event-id", "0", "-1", "1e3", "999999999999999", "9999999999999999", "x"],
  ["x-bowline-hops", "0", "16", "17", "999999999999999", "-1", "x"],
  ["x-bowline-via", "a", "a,a", ",", "x".repeat(129)],
  ["x-bowline-session", "s", "\xff"],
  ["te", "trailers"],
  ["trailer", "content-length"],
  ["upgrade", "websocket", "h2c", ""],
  ["connection", "keep-alive, content-length", "upgrade", "x"],
  ["keep-alive", "timeout=99999999999"],
  ["max-forwards", "0"],
  ["__proto__", "x"],
  ["constructor", "x"],
  ["a".repeat(500), "x"]
]

const hostileHeader = (draw: Draw): Header => {
  const [name = "", ...values] = nasty[draw.below(nasty.length)] ?? []
  return [name, draw.chance(70) ? (values[draw.below(values.length)] ?? "") : headerText(draw)]
}

const targetText = (draw: Draw): string =>
  draw.anyOf(
    () => encodeURIComponent(text(draw).toWellFormed()),
    () => text(draw).replaceAll(/[^\x21-\x7e]/g, ""),
    () => draw.oneOf(["%", "%ff", "%00", "%c0%af", "..", "%2e%2e", "%2f", ":id", "{id}", "*", "%25", "x".repeat(8_000)])
  )

/** Sessions that others of these requests make again. */
const disposable = ["a", "b2", "c.d-e"] as const

const targetOf = (draw: Draw, { parameters, path }: Operation, ids: Target["ids"]): string => {
  const filled = path.replaceAll(/\{\w+\}/g, () => (draw.chance(60) ? draw.oneOf(ids) : targetText(draw)))
  const given = parameters.filter(({ in: place }) => place === "query" && draw.chance(40)).map(({ name }) => name)
  const named = [...given, ...draw.many(0, draw.oneOf([0, 0, 1, 3]), () => targetText(draw))]
  const query = named.flatMap((name) =>
    draw.many(1, draw.chance(5) ? 3 : 1, () => {
      const value = draw.anyOf(
        () => targetText(draw),
        () => draw.oneOf(ids),
        () => draw.oneOf(["", "0", "1", "200", "201", "-1", "1e3", "9".repeat(30), "MQ", "running", "null"])
      )
      return draw.chance(95) ? `${name}=${value}` : name
    })
  )
  const whole = query.length === 0 ? filled : `${filled}?${query.join(draw.chance(95) ? "&" : draw.oneOf(["&&", ";"]))}`
  if (draw.chance(96)) return whole
  return draw.anyOf(
    () => `/${whole}`,
    () => `${whole}/`,
    () => whole.toUpperCase(),
    () => `http://evil.example${whole}`,
    () => `HTTP://127.0.0.1:1${whole}`,
    () => draw.oneOf(["*", "//", "/..", "/.", "/?", "/nowhere", "?", "/%", "http://", "/\\"]),
    () => `${whole}#x`
  )
}

const drawBody = (draw: Draw, operation: Operation, definitions: Target["definitions"]) => {
  if (operation.body === undefined && draw.chance(75)) return Buffer.alloc(0)
  return body(draw, operation.body ?? { type: "object" }, definitions)
}

/** A request in well-formed HTTP, whatever it says. */
export const message = (draw: Draw, operation: Operation, { definitions, ids, key }: Target): Message => {
  const method = draw.chance(90) ? operation.method : draw.oneOf(methods)
  const plain = drawBody(draw, operation, definitions)
  const [encoding, sent] = draw.chance(95)
    ? [undefined, plain]
    : draw.anyOf<readonly [encoding: string | undefined, sent: Buffer]>(
        () => ["gzip", gzipSync(plain)],
        () => ["br", brotliCompressSync(plain)],
        () => ["gzip", bomb],
        () => [undefined, gzipSync(plain)]
      )
  const headers = new Map<string, Header>()
  const set = (name: string, value: string) => headers.set(name.toLowerCase(), [name, value])
  set("Host", "127.0.0.1")
  if (draw.chance(97)) set("Authorization", `Bearer ${key}`)
  if (sent.length > 0 && draw.chance(95)) set("Content-Type", "application/json")
  if (draw.chance(40)) set("Accept", "application/json")
  if (encoding !== undefined) set("Content-Encoding", encoding)
  for (const { in: place, name } of operation.parameters) {
    if (place === "header" && draw.chance(15)) set(name, headerText(draw))
  }
  for (const header of draw.many(0, draw.oneOf([0, 0, 0, 1, 2, 5]), () => hostileHeader(draw))) set(...header)
  const doubled = draw.chance(3) ? [hostileHeader(draw), hostileHeader(draw)] : []
  const target = targetOf(draw, operation, method === "DELETE" ? disposable : ids)
  return { method, target, headers: [...headers.values(), ...doubled], body: sent }
}

/** Paths that no operation has. */
const page = (path: string): Operation => ({ method: "GET", path, parameters: [], body: undefined })
const pages = [page("/openapi.json"), page("/docs"), page("/nowhere")] as const

/** Where it goes. */
export const drawOperation = (draw: Draw, operations: Target["operations"]): Operation => {
  // Half of the requests go where most is read of them.
  const withBody = operations.filter(({ body }) => body !== undefined)
  const all = draw.chance(50) ? withBody : [...operations, ...pages]
  return all[draw.below(all.length)] ?? pages[0]
}
