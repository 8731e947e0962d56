/** What a client may ask for, in whatever dialect and binding. */
export type Operation =
  | "send"
  | "stream"
  | "get"
  | "list"
  | "cancel"
  | "subscribe"
  | "extendedCard"
  | "createPush"
  | "getPush"
  | "listPush"
  | "deletePush"

/** The dialects that the gateway serves. */
export type ServedDialect = "1.0" | "0.3"

const methods10: Readonly<Record<string, Operation>> = {
  SendMessage: "send",
  SendStreamingMessage: "stream",
  GetTask: "get",
  ListTasks: "list",
  CancelTask: "cancel",
  SubscribeToTask: "subscribe",
  GetExtendedAgentCard: "extendedCard",
  CreateTaskPushNotificationConfig: "createPush",
  GetTaskPushNotificationConfig: "getPush",
  ListTaskPushNotificationConfigs: "listPush",
  DeleteTaskPushNotificationConfig: "deletePush"
}

const methods03: Readonly<Record<string, Operation>> = {
  "message/send": "send",
  "message/stream": "stream",
  "tasks/get": "get",
  "tasks/cancel": "cancel",
  "tasks/resubscribe": "subscribe",
  "agent/getAuthenticatedExtendedCard": "extendedCard",
  "tasks/pushNotificationConfig/set": "createPush",
  "tasks/pushNotificationConfig/get": "getPush",
  "tasks/pushNotificationConfig/list": "listPush",
  "tasks/pushNotificationConfig/delete": "deletePush"
}

const own = (methods: Readonly<Record<string, Operation>>, name: string): Operation | undefined =>
  Object.hasOwn(methods, name) ? methods[name] : undefined

/** The dialect that a request names in `A2A-Version`: undefined if it names none, and `unknown` if the gateway does not serve it. */
export const namedDialect = (version: string | undefined): ServedDialect | "unknown" | undefined => {
  const name = version?.trim() ?? ""
  if (name === "") return undefined
  const [, dialect] = /^(1\.0|0\.3)(?:\.\d+)?$/.exec(name) ?? []
  return dialect === "1.0" || dialect === "0.3" ? dialect : "unknown"
}

/** What a method of JSON-RPC asks for, if a dialect that the request may speak has it. */
export const ofMethod = (
  method: string,
  named: ServedDialect | undefined
): { readonly operation: Operation; readonly dialect: ServedDialect } | undefined => {
  const [of10, of03] = [own(methods10, method), own(methods03, method)]
  if (of10 !== undefined && named !== "0.3") return { operation: of10, dialect: "1.0" }
  return of03 !== undefined && named !== "1.0" ? { operation: of03, dialect: "0.3" } : undefined
}

/** What a request over HTTP+JSON asks for, with the parameters that its path has. */
export interface RestRoute {
  readonly dialect: ServedDialect
  readonly operation: Operation
  readonly params: { readonly id?: string; readonly taskId?: string }
}

type Table = ReadonlyArray<readonly [method: string, path: RegExp, operation: Operation, dialect?: ServedDialect]>

const rest: Table = [
  ["POST", /^message:send$/, "send"],
  ["POST", /^message:stream$/, "stream"],
  ["GET", /^tasks$/, "list"],
  ["POST", /^tasks\/(?<id>[^/]+):cancel$/, "cancel"],
  ["POST", /^tasks\/(?<id>[^/]+):subscribe$/, "subscribe"],
  ["GET", /^tasks\/(?<id>[^/]+):subscribe$/, "subscribe"],
  ["GET", /^tasks\/(?<id>[^/:]+)$/, "get"],
  ["GET", /^extendedAgentCard$/, "extendedCard", "1.0"],
  ["GET", /^card$/, "extendedCard", "0.3"],
  ["POST", /^tasks\/(?<taskId>[^/]+)\/pushNotificationConfigs$/, "createPush"],
  ["GET", /^tasks\/(?<taskId>[^/]+)\/pushNotificationConfigs$/, "listPush"],
  ["GET", /^tasks\/(?<taskId>[^/]+)\/pushNotificationConfigs\/(?<id>[^/]+)$/, "getPush"],
  ["DELETE", /^tasks\/(?<taskId>[^/]+)\/pushNotificationConfigs\/(?<id>[^/]+)$/, "deletePush"]
]

/** What a method and a path below the binding's URL ask for. If only the method is wrong, those that are right. */
export const ofPath = (
  method: string,
  path: string
): RestRoute | { readonly dialect: ServedDialect; readonly allowed: ReadonlyArray<string> } => {
  const [, version, name = ""] = /^\/*(?:(v1)(?:\/+|$))?(.*?)\/*$/.exec(path) ?? []
  const dialect = version === undefined ? "1.0" : "0.3"
  const found = rest.flatMap(([verb, pattern, operation, only = dialect]) => {
    const match = only === dialect ? pattern.exec(name) : null
    return match === null ? [] : [{ verb, route: { dialect, operation, params: { ...match.groups } } as const }]
  })
  const right = found.find(({ verb }) => verb === method)
  return right?.route ?? { dialect, allowed: found.map(({ verb }) => verb) }
}
