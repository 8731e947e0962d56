import type { Dialect } from "@bowline/domain/peer/Agent"
import { Option, Result, Schema } from "effect"

/** How a peer spells the parameter that names a task. */
export type TaskIdName = "id" | "taskId" | "task_id"

const word = Schema.NonEmptyString
const uuid = Schema.String.check(Schema.isUUID())
const metadata = Schema.optionalKey(Schema.JsonObject)
const historyLength = Schema.optionalKey(Schema.Int)
const modes = Schema.NonEmptyArray(word)

const message = {
  kind: Schema.Literal("message"),
  role: Schema.Literal("user"),
  messageId: word,
  parts: Schema.NonEmptyArray(
    Schema.Union([
      Schema.Struct({ kind: Schema.Literal("text"), text: Schema.String, metadata }),
      Schema.Struct({ kind: Schema.Literal("data"), data: Schema.JsonObject, metadata }),
      Schema.Struct({ kind: Schema.Literal("file"), file: Schema.JsonObject, metadata })
    ])
  ),
  contextId: Schema.optionalKey(word),
  metadata
}
const configuration = {
  blocking: Schema.optionalKey(Schema.Boolean),
  acceptedOutputModes: Schema.optionalKey(modes),
  historyLength
}
// A task of its own is all that can be asked for: nothing goes on with an older one.
const A2aSend = Schema.Struct({
  message: Schema.Struct(message),
  configuration: Schema.optionalKey(Schema.Struct(configuration)),
  metadata
})
const BinduSend = Schema.Struct({
  message: Schema.Struct({ ...message, messageId: uuid, taskId: uuid, contextId: uuid }),
  configuration: Schema.Struct({ ...configuration, acceptedOutputModes: modes }),
  metadata
})

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

export type SendParams = typeof A2aSend.Type | typeof BinduSend.Type
export type StrictRequest =
  | { readonly method: "message/send"; readonly params: SendParams }
  | { readonly method: "tasks/get" | "tasks/cancel"; readonly taskId: string }

export interface RpcError {
  readonly code: number
  readonly message: string
}

const decode = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, input: unknown, code: number) =>
  Result.mapError(Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })(input), (error): RpcError => ({
    code,
    message: error.message
  }))

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

const decodeMethod = (
  dialect: Dialect,
  taskIdName: TaskIdName,
  method: string,
  params: unknown
): Result.Result<StrictRequest, RpcError> => {
  switch (method) {
    case "message/send":
      return Result.map(decode(dialect === "bindu" ? BinduSend : A2aSend, params, -32602), (params) => ({
        method,
        params
      }))
    case "tasks/get":
    case "tasks/cancel":
      return Result.map(decodeTaskId(params, taskIdName), (taskId) => ({ method, taskId }))
    default:
      return Result.fail({ code: -32601, message: `There is no method ${method}` })
  }
}

const decodeMethodName = Schema.decodeUnknownOption(Schema.Struct({ method: Schema.String }))

export interface ReadRequest {
  readonly id: string | number | null
  /** The method that it names, also when something else is wrong. */
  readonly method: string | undefined
  readonly request: Result.Result<StrictRequest, RpcError>
}

/**
 * Reads a JSON-RPC request as a peer that knows nothing but its dialect: a member that is missing, misspelt or one too many
 * is an error.
 */
export const readRequest = (dialect: Dialect, taskIdName: TaskIdName, body: string): ReadRequest => {
  const json = decode(Schema.fromJsonString(Schema.Json), body, -32700)
  if (Result.isFailure(json)) return { id: null, method: undefined, request: Result.fail(json.failure) }
  const named = Option.getOrUndefined(decodeMethodName(json.success))?.method
  const call = decode(Envelope[dialect], json.success, -32600)
  if (Result.isFailure(call)) return { id: null, method: named, request: Result.fail(call.failure) }
  const { id, method, params } = call.success
  return { id, method, request: decodeMethod(dialect, taskIdName, method, params) }
}
