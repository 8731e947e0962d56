import type { Dialect } from "@bowline/domain/peer/Agent"
import { Result, Schema } from "effect"
import type { HostRequest } from "../../http/Host.ts"
import { A2a03Send, A2a10Send, BinduSend, fromA2a10, historyLength, metadata, type SendParams } from "./SendParams.ts"

/** How a peer spells the parameter that names a task. */
export type TaskIdName = "id" | "taskId" | "task_id"

const sends = ["message/send", "message/stream"] as const
const taskMethods = ["tasks/get", "tasks/cancel", "tasks/resubscribe"] as const

/** A method, as A2A 0.3 and bindu call it. */
export type Method = (typeof sends)[number] | (typeof taskMethods)[number]

const ofA2a10: Readonly<Record<string, Method>> = {
  SendMessage: "message/send",
  SendStreamingMessage: "message/stream",
  GetTask: "tasks/get",
  CancelTask: "tasks/cancel",
  SubscribeToTask: "tasks/resubscribe"
}

const word = Schema.NonEmptyString
const uuid = Schema.String.check(Schema.isUUID())

const taskParams = {
  id: Schema.Struct({ id: word, historyLength, metadata }),
  taskId: Schema.Struct({ taskId: uuid, historyLength, metadata }),
  task_id: Schema.Struct({ task_id: uuid, historyLength, metadata })
}

const envelope = { jsonrpc: Schema.Literal("2.0"), method: Schema.String, params: Schema.Json }
const A2aEnvelope = Schema.Struct({ ...envelope, id: Schema.Union([word, Schema.Int]) })
const Envelope = {
  "a2a-1.0": A2aEnvelope,
  "a2a-0.3": A2aEnvelope,
  bindu: Schema.Struct({ ...envelope, id: uuid })
}

export type StrictRequest =
  | { readonly method: (typeof sends)[number]; readonly params: SendParams }
  | { readonly method: (typeof taskMethods)[number]; readonly taskId: string }

export interface RpcError {
  readonly code: number
  readonly message: string
}

const decode = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, input: unknown, code: number) =>
  Result.mapError(Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })(input), (error): RpcError => ({
    code,
    message: error.message
  }))

const decodeSend = (dialect: Dialect, params: unknown): Result.Result<SendParams, RpcError> => {
  switch (dialect) {
    case "a2a-1.0":
      return Result.map(decode(A2a10Send, params, -32602), fromA2a10)
    case "a2a-0.3":
      return decode(A2a03Send, params, -32602)
    case "bindu":
      return decode(BinduSend, params, -32602)
  }
}

const decodeTaskId = (params: unknown, name: TaskIdName): Result.Result<string, RpcError> => {
  switch (name) {
    case "id":
      return Result.map(decode(taskParams.id, params, -32602), (params) => params.id)
    case "taskId":
      return Result.map(decode(taskParams.taskId, params, -32602), (params) => params.taskId)
    case "task_id":
      return Result.map(decode(taskParams.task_id, params, -32602), (params) => params.task_id)
  }
}

const isSend = Schema.is(Schema.Literals(sends))
const isTaskMethod = Schema.is(Schema.Literals(taskMethods))

const decodeMethod = (
  dialect: Dialect,
  taskIdName: TaskIdName,
  name: string,
  params: unknown
): Result.Result<StrictRequest, RpcError> => {
  const method = dialect === "a2a-1.0" ? ofA2a10[name] : name
  if (isSend(method)) return Result.map(decodeSend(dialect, params), (params) => ({ method, params }))
  if (isTaskMethod(method)) return Result.map(decodeTaskId(params, taskIdName), (taskId) => ({ method, taskId }))
  return Result.fail({ code: -32601, message: `There is no method ${name}` })
}

export interface ReadRequest {
  readonly id: string | number | null
  readonly request: Result.Result<StrictRequest, RpcError>
}

/**
 * Reads a JSON-RPC request as a peer that knows nothing but its dialect: a member that is missing, misspelt or one too many
 * is an error, and so is a missing version where the dialect wants one.
 */
export const readRequest = (
  dialect: Dialect,
  taskIdName: TaskIdName,
  { body, headers }: Pick<HostRequest, "body" | "headers">
): ReadRequest => {
  const json = decode(Schema.fromJsonString(Schema.Json), body, -32700)
  if (Result.isFailure(json)) return { id: null, request: Result.fail(json.failure) }
  const call = decode(Envelope[dialect], json.success, -32600)
  if (Result.isFailure(call)) return { id: null, request: Result.fail(call.failure) }
  const { id, method, params } = call.success
  const version = headers["a2a-version"]
  if (dialect === "a2a-1.0" && version !== "1.0") {
    const error = { code: -32009, message: `Expected A2A-Version 1.0, got ${version ?? "none"}` }
    return { id, request: Result.fail(error) }
  }
  return { id, request: decodeMethod(dialect, taskIdName, method, params) }
}
