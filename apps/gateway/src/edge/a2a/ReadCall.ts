import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import { jsonName, withJsonNames } from "@bowline/a2a/unstable/server/JsonNames"
import {
  namedDialect,
  ofMethod,
  ofPath,
  type Operation,
  type ServedDialect
} from "@bowline/a2a/unstable/server/Operation"
import { Effect, Option, Result, Schema } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Refused } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import { type Binding, type Call, rest, rpc } from "./Binding.ts"

/** Where a request goes below `/a2a`: the preset, and the path that is left for the binding. */
export interface Place {
  readonly preset: string | undefined
  readonly path: string
  readonly query: URLSearchParams
}

const decodeText = Option.liftThrowable(decodeURIComponent)

export const placeOf = (url: string): Place => {
  const [, preset, path = "", query] = /^\/+a2a(?:\/+agents\/+([^/?]+))?([^?]*)\??(.*)$/is.exec(url) ?? []
  return {
    preset: preset === undefined ? undefined : Option.getOrElse(decodeText(preset), () => preset),
    path: Option.getOrElse(decodeText(path), () => path),
    query: new URLSearchParams(query)
  }
}

/** A client may name it in the query, too. */
const versionOf = ({ headers }: HttpServerRequest.HttpServerRequest, query: URLSearchParams): string | undefined =>
  headers["a2a-version"] ?? query.get("A2A-Version") ?? undefined

const versions = "0.3,1.0"
const unknownVersion = (version: string) =>
  new A2aError({
    error: "VersionNotSupported",
    message: `Expected A2A-Version to be one of ${versions}, not ${version.slice(0, 64)}`,
    metadata: { supported: versions }
  })

const isRecord = Schema.is(Schema.Record(Schema.String, Schema.Unknown))
const isId = Schema.is(Schema.NullOr(Schema.Union([Schema.String, Schema.Finite])))

const invalidRequest = (message: string) => new A2aError({ error: "InvalidRequest", message })

/** What has been read of a request, and how to answer it. */
type Read = Result.Result<Call, { readonly binding: Binding; readonly failed: A2aError }>

/** All JSON but that of 0.3's JSON-RPC is that of protocol buffers. */
const succeed = (operation: Operation, params: unknown, binding: Binding): Read =>
  Result.succeed({ operation, params: binding.wire === "0.3" ? params : withJsonNames(params), binding })

const readRpc = (body: unknown, version: string | undefined): Read => {
  const named = namedDialect(version)
  const dialect: ServedDialect = named === "1.0" || named === "0.3" ? named : "0.3"
  const fail = (failed: A2aError, id: string | number | null = null) =>
    Result.fail({ binding: rpc(dialect, id), failed })
  if (!isRecord(body)) return fail(invalidRequest("Expected one request, which is an object"))
  const { id, jsonrpc, method, params = {} } = body
  if (!isId(id)) {
    return fail(invalidRequest("Expected an id that is a string, a number or null: there are no notifications"))
  }
  if (jsonrpc !== "2.0") return fail(invalidRequest('Expected jsonrpc to be "2.0"'), id)
  if (typeof method !== "string") return fail(invalidRequest("Expected method to be a string"), id)
  if (named === "unknown") return fail(unknownVersion(version ?? ""), id)
  const found = ofMethod(method, named)
  if (found === undefined) {
    const which = named === undefined ? "" : ` in A2A ${named}`
    return fail(
      new A2aError({ error: "MethodNotFound", message: `There is no method ${method.slice(0, 64)}${which}` }),
      id
    )
  }
  return succeed(found.operation, params, rpc(found.dialect, id))
}

const readValue = (text: string): unknown => {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  return text === "true" || text === "false" ? text === "true" : text
}

/** Of the parameters of a query these are no texts. */
const typed = new Set(["historyLength", "pageSize", "includeArtifacts"])

const readQuery = (query: URLSearchParams) =>
  Object.fromEntries(Array.from(query, ([name, text]) => [name, typed.has(jsonName(name)) ? readValue(text) : text]))

/** Reads a request of either binding. What the gateway itself refuses of it is answered at once. */
export const make = (maxBody: number) => {
  const readBody = readForeignJson(Schema.Unknown, maxBody)

  /** A body that is no JSON is another error than one whose fields are wrong. */
  const parse = (request: HttpServerRequest.HttpServerRequest) =>
    readBody(request).pipe(
      Effect.map(({ value }) => value),
      Effect.mapError((refused) =>
        refused.code === "invalid_request"
          ? new A2aError({ error: "ParseError", message: refused.issues?.[0]?.message ?? refused.detail })
          : refused
      )
    )

  const readRest = Effect.fnUntraced(function* (
    request: HttpServerRequest.HttpServerRequest,
    { path, query }: Place
  ): Effect.fn.Return<Read, Refused> {
    const route = ofPath(request.method, path)
    const version = versionOf(request, query)
    const named = namedDialect(version)
    const { dialect } = route
    const binding = rest(dialect, request.headers.accept)
    const fail = (failed: A2aError) => Result.fail({ binding, failed })
    if (named === "unknown") return fail(unknownVersion(version ?? ""))
    if ("allowed" in route && route.allowed.length > 0) {
      const allow = route.allowed.join(", ")
      const detail = `This route has ${allow}, not ${request.method}`
      return yield* new Refused({ code: "method_not_allowed", detail, headers: { allow } })
    }
    if ("allowed" in route || (named !== undefined && named !== dialect)) {
      return fail(new A2aError({ error: "MethodNotFound", message: "There is no such route" }))
    }
    const { operation, params } = route
    const hasBody = operation === "send" || operation === "stream" || operation === "createPush"
    if (!hasBody) {
      return succeed(operation, { ...readQuery(query), ...params }, binding)
    }
    const body = yield* Effect.result(parse(request))
    if (Result.isFailure(body)) return body.failure._tag === "Refused" ? yield* body.failure : fail(body.failure)
    // What the path says counts.
    const sent = isRecord(body.success) ? { ...body.success, ...params } : body.success
    return succeed(operation, sent, binding)
  })

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, place: Place) {
    if (/^\/*$/.test(place.path)) {
      if (request.method !== "POST") {
        return yield* new Refused({
          code: "method_not_allowed",
          detail: `This route has POST, not ${request.method}`,
          headers: { allow: "POST" }
        })
      }
      const body = yield* Effect.result(parse(request))
      if (Result.isSuccess(body)) return readRpc(body.success, versionOf(request, place.query))
      if (body.failure._tag === "Refused") return yield* body.failure
      return Result.fail({ binding: rpc("1.0", null), failed: body.failure })
    }
    return yield* readRest(request, place)
  })
}
