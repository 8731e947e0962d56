import { type A2aError, statusOf, toRest, toRpc } from "@bowline/a2a/unstable/server/A2aError"
import type { Operation, ServedDialect } from "@bowline/a2a/unstable/server/Operation"
import { json03, json10, jsonProto03, type ServedJson } from "@bowline/a2a/unstable/server/ServedJson"
import type { Wire } from "@bowline/a2a/unstable/server/PushConfig"
import type { Metadata } from "@bowline/a2a/unstable/server/ServedTask"
import Negotiator from "negotiator"
import type { Schema } from "effect"
import { HttpServerResponse } from "effect/http"

/** How a request is answered: in the dialect and the binding that it speaks. */
export interface Binding {
  /** The spelling of its parameters. */
  readonly wire: Wire
  readonly json: ServedJson
  readonly contentType: string
  readonly body: (result: Schema.Json) => Schema.Json
  readonly failure: (failed: A2aError) => Metadata
  /** What names an event of a stream that is a failure: over JSON-RPC its `error` tells. */
  readonly failureEvent: "" | "event: error\n"
  readonly failureStatus: (failed: A2aError) => number
}

/** One request of a client, in whatever binding. `params` are as it sent them. */
export interface Call {
  readonly operation: Operation
  readonly params: unknown
  readonly binding: Binding
}

/** JSON-RPC. `id` is the request's. Errors are answers like others, but for those that have a status of their own. */
export const rpc = (dialect: ServedDialect, id: string | number | null): Binding => ({
  wire: dialect,
  json: dialect === "1.0" ? json10 : json03,
  contentType: "application/json",
  body: (result) => ({ jsonrpc: "2.0", id, result }),
  failure: (failed) => ({ jsonrpc: "2.0", id, error: toRpc(failed) }),
  failureEvent: "",
  failureStatus: ({ status = 200 }) => ([401, 403, 405, 413, 415, 429, 503].includes(status) ? status : 200)
})

const mediaTypes = ["application/json", "application/a2a+json"]

/** HTTP+JSON. */
export const rest = (dialect: ServedDialect, accept = "*/*"): Binding => ({
  wire: dialect === "1.0" ? "1.0" : "proto",
  json: dialect === "1.0" ? json10 : jsonProto03,
  contentType: new Negotiator({ headers: { accept } }).mediaType(mediaTypes) ?? "application/json",
  body: (result) => result,
  failure: dialect === "1.0" ? toRest : toRpc,
  failureEvent: "event: error\n",
  failureStatus: statusOf
})

export const respond = ({ body, contentType }: Binding, result: Schema.Json): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(body(result)), { contentType })

export const respondFailure = (
  { contentType, failure, failureStatus }: Binding,
  failed: A2aError
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(JSON.stringify(failure(failed)), { contentType, status: failureStatus(failed) })
