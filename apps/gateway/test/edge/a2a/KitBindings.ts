import { Effect } from "effect"
import { post, send } from "../../http/RunningGateway.ts"
import { errorOf, eventsOf, rpc } from "./Requests.ts"

export type Members = Readonly<Record<string, unknown>>

/** What a call gives, in whatever binding: the result, the events of a stream, or why it is refused. */
export interface Given {
  readonly status: number
  readonly result: Members
  readonly events: ReadonlyArray<Members>
  /** The code of JSON-RPC, or the status of HTTP+JSON. */
  readonly code: number | undefined
  readonly reason: string | undefined
}

export type Binding = "JSON-RPC" | "HTTP+JSON"

export type Call = (method: string, params: Members, headers?: Readonly<Record<string, string>>) => Effect.Effect<Given>

const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))

const query = (params: Members): string =>
  new URLSearchParams(Object.entries(params).map(([name, value]): [string, string] => [name, text(value)])).toString()

const configs = ({ id, taskId }: Members): string =>
  `tasks/${text(taskId)}/pushNotificationConfigs${id === undefined ? "" : `/${text(id)}`}`

/** Where HTTP+JSON has the methods of JSON-RPC. */
const routes: Readonly<Record<string, (params: Members) => readonly [verb: string, path: string, body?: Members]>> = {
  SendMessage: (params) => ["POST", "message:send", params],
  SendStreamingMessage: (params) => ["POST", "message:stream", params],
  GetTask: ({ id, ...rest }) => ["GET", `tasks/${text(id)}?${query(rest)}`],
  ListTasks: (params) => ["GET", `tasks?${query(params)}`],
  CancelTask: ({ id }) => ["POST", `tasks/${text(id)}:cancel`],
  SubscribeToTask: ({ id }) => ["POST", `tasks/${text(id)}:subscribe`],
  GetExtendedAgentCard: () => ["GET", "extendedAgentCard"],
  CreateTaskPushNotificationConfig: ({ taskId, ...config }) => ["POST", configs({ taskId }), config],
  GetTaskPushNotificationConfig: (params) => ["GET", configs(params)],
  ListTaskPushNotificationConfigs: (params) => ["GET", configs(params)],
  DeleteTaskPushNotificationConfig: (params) => ["DELETE", configs(params)]
}

type Answer = Effect.Success<ReturnType<typeof send>>

const givenBy = (answer: Answer, unwrap: (body: Members) => Members): Given => {
  const failed = answer.body["error"] === undefined ? undefined : errorOf(answer)
  const { data, details = data } = failed ?? {}
  return {
    status: answer.status,
    result: unwrap(answer.body),
    events: eventsOf(answer.text).map(({ data }) => unwrap(data)),
    code: failed?.code,
    reason: details?.[0]?.reason
  }
}

const version = { "a2a-version": "1.0" }

/** The two bindings of 1.0, by the same calls. */
export const bindings: Readonly<Record<Binding, (url: string) => Call>> = {
  "JSON-RPC": (url) => (method, params, headers) =>
    Effect.map(post(`${url}/a2a`, rpc(method, params), { ...version, ...headers }), (answer) =>
      givenBy(answer, ({ result }) => (result ?? {}) as Members)
    ),
  "HTTP+JSON": (url) => (method, params, headers) => {
    const [verb, path, body] = routes[method]?.(params) ?? ["GET", method]
    return Effect.map(
      send(`${url}/a2a/${path}`, {
        method: verb,
        headers: { ...version, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) })
      }),
      (answer) => givenBy(answer, (body) => body)
    )
  }
}
