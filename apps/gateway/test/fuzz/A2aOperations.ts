import type { JsonSchema, Operation } from "../http/Operations.ts"

const text: JsonSchema = { type: "string" }
const object: JsonSchema = { type: "object" }
const count: JsonSchema = { type: "integer", minimum: 0, maximum: 100 }
const flag: JsonSchema = { type: "boolean" }

const part: JsonSchema = {
  type: "object",
  properties: { kind: { type: "string", enum: ["text", "data", "file"] }, text, data: object, url: text, raw: text },
  required: ["text"]
}

const metadata: JsonSchema = {
  type: "object",
  properties: {
    bowline: {
      type: "object",
      properties: { preferences: object, agents: { type: "array", items: object }, idempotent: flag }
    }
  }
}

const params: JsonSchema = {
  type: "object",
  properties: {
    id: text,
    message: {
      type: "object",
      properties: {
        kind: { type: "string", enum: ["message"] },
        role: { type: "string", enum: ["ROLE_USER", "user", "ROLE_AGENT"] },
        messageId: text,
        contextId: text,
        taskId: text,
        parts: { type: "array", items: part },
        content: { type: "array", items: part },
        metadata
      },
      required: ["role", "messageId", "parts"]
    },
    configuration: {
      type: "object",
      properties: {
        historyLength: count,
        returnImmediately: flag,
        blocking: flag,
        acceptedOutputModes: { type: "array", items: text }
      }
    },
    pageSize: count,
    pageToken: text,
    status: text,
    historyLength: count
  },
  required: ["message", "id"]
}

const methods = [
  "SendMessage",
  "SendStreamingMessage",
  "GetTask",
  "ListTasks",
  "CancelTask",
  "SubscribeToTask",
  "GetExtendedAgentCard",
  "ListTaskPushNotificationConfigs",
  "message/send",
  "message/stream",
  "tasks/get",
  "tasks/cancel",
  "tasks/resubscribe"
] as const

const call: JsonSchema = {
  type: "object",
  properties: {
    jsonrpc: { type: "string", enum: ["2.0"] },
    id: { anyOf: [count, text, { type: "null" }] },
    method: { type: "string", enum: methods },
    params
  },
  required: ["jsonrpc", "id", "method", "params"]
}

const version = { in: "header", name: "A2A-Version" }
const query = [
  "pageSize",
  "pageToken",
  "contextId",
  "status",
  "historyLength",
  "includeArtifacts",
  "statusTimestampAfter"
]

const post = (path: string, body?: JsonSchema): Operation => ({ method: "POST", path, parameters: [version], body })
const get = (path: string): Operation => ({
  method: "GET",
  path,
  parameters: [version, ...query.map((name) => ({ in: "query", name }))],
  body: undefined
})

/** The bindings of A2A, which the OpenAPI document does not have. */
export const a2aOperations: ReadonlyArray<Operation> = [
  post("/a2a", call),
  post("/a2a/agents/{preset}", call),
  ...["/a2a", "/a2a/v1"].flatMap((base) => [
    post(`${base}/message:send`, params),
    post(`${base}/message:stream`, params),
    post(`${base}/tasks/{id}:cancel`),
    post(`${base}/tasks/{id}:subscribe`),
    get(`${base}/tasks`),
    get(`${base}/tasks/{id}`),
    get(`${base}/tasks/{id}/pushNotificationConfigs`)
  ])
]
