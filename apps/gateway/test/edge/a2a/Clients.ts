import { Effect } from "effect"
import { Message as Message10, type Part, Role, type StreamResponse, TaskState } from "a2a-sdk-1"
import * as Sdk1 from "a2a-sdk-1/client"
import type { Message as Message03, Task as Task03, TaskPushNotificationConfig } from "a2a-sdk-0.3"
import * as Sdk03 from "a2a-sdk-0.3/client"

/** What every client can do, in the words of the tests. */
export interface TaskShown {
  readonly id: string
  readonly contextId: string
  readonly state: string
  /** The text of the status, and its data. */
  readonly said: string
  readonly answer: string
  readonly artifacts: ReadonlyArray<string>
  readonly history: number
}

export interface Sent {
  readonly text?: string
  readonly data?: object
  /** Its bytes in base64. */
  readonly file?: { readonly bytes: string; readonly mediaType: string; readonly name: string }
  readonly taskId?: string
  readonly contextId?: string
  readonly metadata?: object
  readonly waits?: boolean
}

/** An event of a stream: what it is, and the text of the answer so far. */
export interface EventShown {
  readonly kind: string
  readonly state?: string
  readonly said?: string
  readonly answer: string
}

/** A place to notify: `<id> <url>`. */
export type PlaceShown = string

export interface AnyClient {
  readonly send: (sent: Sent) => Promise<TaskShown>
  readonly stream: (sent: Sent) => AsyncGenerator<EventShown, void>
  readonly get: (id: string, historyLength?: number) => Promise<TaskShown>
  readonly cancel: (id: string) => Promise<TaskShown>
  readonly subscribe: (id: string, after?: string) => AsyncGenerator<EventShown, void>
  readonly notify: (taskId: string, id: string, url: string) => Promise<PlaceShown>
  readonly place: (taskId: string, id: string) => Promise<PlaceShown>
  readonly places: (taskId: string) => Promise<ReadonlyArray<PlaceShown>>
  readonly forget: (taskId: string, id: string) => Promise<void>
}

let count = 0
const nextId = () => `message-${++count}`

const withKey =
  (key: string | undefined): typeof fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers)
    if (key !== undefined) headers.set("authorization", `Bearer ${key}`)
    return fetch(input, { ...init, headers })
  }

const textPart10 = (value: string): Part => ({
  content: { $case: "text", value },
  metadata: undefined,
  filename: "",
  mediaType: ""
})

const words = (parts: ReadonlyArray<Part>): string =>
  parts.map(({ content }) => (content?.$case === "text" ? content.value : JSON.stringify(content?.value))).join("")

const states10: Readonly<Record<number, string>> = {
  [TaskState.TASK_STATE_SUBMITTED]: "submitted",
  [TaskState.TASK_STATE_WORKING]: "working",
  [TaskState.TASK_STATE_COMPLETED]: "completed",
  [TaskState.TASK_STATE_FAILED]: "failed",
  [TaskState.TASK_STATE_CANCELED]: "canceled",
  [TaskState.TASK_STATE_INPUT_REQUIRED]: "input-required",
  [TaskState.TASK_STATE_AUTH_REQUIRED]: "auth-required",
  [TaskState.TASK_STATE_REJECTED]: "rejected"
}

type Task10 = Awaited<ReturnType<Sdk1.Client["getTask"]>>

const shown10 = ({ artifacts, contextId, history, id, status }: Task10): TaskShown => ({
  id,
  contextId,
  state: states10[status?.state ?? 0] ?? "unknown",
  said: words(status?.message?.parts ?? []),
  answer: words(artifacts.find(({ artifactId }) => artifactId === "answer")?.parts ?? []),
  artifacts: artifacts.map(({ name, parts }) => `${name}: ${words(parts)}`),
  history: history.length
})

/** Follows the rules: what is to be appended is appended, and the rest replaced. */
async function* shownEvents10(events: AsyncGenerator<StreamResponse>): AsyncGenerator<EventShown, void> {
  let answer = ""
  for await (const { payload } of events) {
    if (payload?.$case === "task") {
      const task = shown10(payload.value)
      answer = task.answer
      yield { kind: "task", state: task.state, said: task.said, answer }
    } else if (payload?.$case === "statusUpdate") {
      const { status } = payload.value
      const said = words(status?.message?.parts ?? [])
      yield { kind: "status", state: states10[status?.state ?? 0] ?? "unknown", said, answer }
    } else if (payload?.$case === "artifactUpdate") {
      const { append, artifact } = payload.value
      const text = words(artifact?.parts ?? [])
      if (artifact?.artifactId === "answer") answer = append ? answer + text : text
      yield { kind: artifact?.artifactId === "answer" ? "answer" : `artifact ${artifact?.name}`, answer }
    }
  }
}

const request10 = ({ contextId = "", data, file, metadata, taskId = "", text, waits = true }: Sent) => ({
  tenant: "",
  message: {
    ...Message10.fromJSON({ messageId: nextId(), metadata }),
    contextId,
    taskId,
    role: Role.ROLE_USER,
    parts: [
      ...(text === undefined ? [] : [textPart10(text)]),
      ...(data === undefined
        ? []
        : [{ content: { $case: "data" as const, value: data }, metadata: undefined, filename: "", mediaType: "" }]),
      ...(file === undefined
        ? []
        : [
            {
              content: { $case: "raw" as const, value: Buffer.from(file.bytes, "base64") },
              metadata: undefined,
              filename: file.name,
              mediaType: file.mediaType
            }
          ])
    ]
  },
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: !waits },
  metadata: undefined
})

const tenant = ""
const authentication = { scheme: "Bearer", credentials: "secret" }
const place10 = ({ id, url }: { readonly id: string; readonly url: string }): PlaceShown => `${id} ${url}`

type Transport = "JSONRPC" | "HTTP+JSON"

/** The official client of A2A 1.0. It finds the gateway by its card. */
const client10 = async (url: string, transport: Transport, key?: string, card?: string): Promise<AnyClient> => {
  const fetchImpl = withKey(key)
  const factory = new Sdk1.ClientFactory({
    transports: [new Sdk1.JsonRpcTransportFactory({ fetchImpl }), new Sdk1.RestTransportFactory({ fetchImpl })],
    preferredTransports: [transport]
  })
  const client = await factory.createFromUrl(url, card)
  const asTask = (result: Awaited<ReturnType<typeof client.sendMessage>>) => {
    if ("messageId" in result) throw new Error("Expected a task")
    return shown10(result)
  }
  return {
    send: async (sent) => asTask(await client.sendMessage(request10(sent))),
    stream: (sent) => shownEvents10(client.sendMessageStream(request10(sent))),
    get: async (id, historyLength) => shown10(await client.getTask({ tenant: "", id, historyLength })),
    cancel: async (id) => shown10(await client.cancelTask({ tenant: "", id, metadata: undefined })),
    subscribe: (id, after) =>
      shownEvents10(
        client.resubscribeTask(
          { tenant: "", id },
          after === undefined ? {} : { serviceParameters: { "Last-Event-ID": after } }
        )
      ),
    notify: async (taskId, id, url) =>
      place10(await client.createTaskPushNotificationConfig({ tenant, taskId, id, url, token: "", authentication })),
    place: async (taskId, id) => place10(await client.getTaskPushNotificationConfig({ tenant, taskId, id })),
    places: async (taskId) => {
      const asked = { tenant, taskId, pageSize: 0, pageToken: "" }
      return (await client.listTaskPushNotificationConfig(asked)).configs.map(place10)
    },
    forget: (taskId, id) => client.deleteTaskPushNotificationConfig({ tenant, taskId, id })
  }
}

const words03 = (parts: Message03["parts"]): string =>
  parts
    .map((part) => (part.kind === "text" ? part.text : JSON.stringify(part.kind === "data" ? part.data : part)))
    .join("")

const shown03 = ({ artifacts = [], contextId, history = [], id, status }: Task03): TaskShown => ({
  id,
  contextId,
  state: status.state,
  said: words03(status.message?.parts ?? []),
  answer: words03(artifacts.find(({ artifactId }) => artifactId === "answer")?.parts ?? []),
  artifacts: artifacts.map(({ name, parts }) => `${name}: ${words03(parts)}`),
  history: history.length
})

type Event03 = ReturnType<Sdk03.Client["sendMessageStream"]> extends AsyncGenerator<infer E> ? E : never

async function* shownEvents03(events: AsyncGenerator<Event03>, appends: boolean): AsyncGenerator<EventShown, void> {
  let answer = ""
  for await (const event of events) {
    if (event.kind === "task") {
      const task = shown03(event)
      answer = task.answer
      yield { kind: "task", state: task.state, said: task.said, answer }
    } else if (event.kind === "status-update") {
      yield { kind: "status", state: event.status.state, said: words03(event.status.message?.parts ?? []), answer }
    } else if (event.kind === "artifact-update") {
      const { append, artifact, lastChunk } = event
      const text = words03(artifact.parts)
      // Over HTTP+JSON this client drops `append`.
      const isMore = appends ? append === true : text !== "" || lastChunk === true
      if (artifact.artifactId === "answer") answer = isMore ? answer + text : text
      yield { kind: artifact.artifactId === "answer" ? "answer" : `artifact ${artifact.name}`, answer }
    }
  }
}

const place03 = ({ pushNotificationConfig: { id, url } }: TaskPushNotificationConfig): PlaceShown => `${id} ${url}`

const request03 = ({ contextId, data, file, metadata, taskId, text, waits = true }: Sent) => ({
  message: {
    kind: "message" as const,
    messageId: nextId(),
    role: "user" as const,
    ...(contextId !== undefined && { contextId }),
    ...(taskId !== undefined && { taskId }),
    ...(metadata !== undefined && { metadata: { ...metadata } }),
    parts: [
      ...(text === undefined ? [] : [{ kind: "text" as const, text }]),
      ...(data === undefined ? [] : [{ kind: "data" as const, data: { ...data } }]),
      ...(file === undefined
        ? []
        : [{ kind: "file" as const, file: { bytes: file.bytes, mimeType: file.mediaType, name: file.name } }])
    ]
  },
  configuration: { blocking: waits }
})

/** The official client of A2A 0.3. */
const client03 = async (url: string, transport: Transport, key?: string, card?: string): Promise<AnyClient> => {
  const fetchImpl = withKey(key)
  const factory = new Sdk03.ClientFactory({
    transports: [new Sdk03.JsonRpcTransportFactory({ fetchImpl }), new Sdk03.RestTransportFactory({ fetchImpl })],
    preferredTransports: [transport]
  })
  const client = await factory.createFromUrl(url, card)
  const appends = transport === "JSONRPC"
  return {
    send: async (sent) => {
      const result = await client.sendMessage(request03(sent))
      if (result.kind !== "task") throw new Error("Expected a task")
      return shown03(result)
    },
    stream: (sent) => shownEvents03(client.sendMessageStream(request03(sent)), appends),
    get: async (id, historyLength) =>
      shown03(await client.getTask({ id, ...(historyLength !== undefined && { historyLength }) })),
    cancel: async (id) => shown03(await client.cancelTask({ id })),
    subscribe: (id, after) =>
      shownEvents03(
        client.resubscribeTask({ id }, after === undefined ? {} : { serviceParameters: { "Last-Event-ID": after } }),
        appends
      ),
    notify: async (taskId, id, url) => {
      const pushNotificationConfig = { id, url, authentication: { schemes: ["Bearer"], credentials: "secret" } }
      return place03(await client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig }))
    },
    place: async (id, pushNotificationConfigId) => {
      const asked = { id, pushNotificationConfigId }
      return place03(await client.getTaskPushNotificationConfig(asked))
    },
    places: async (id) => (await client.listTaskPushNotificationConfig({ id })).map(place03),
    forget: (id, pushNotificationConfigId) => client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId })
  }
}

/** The official clients over both transports. */
export const clients = {
  "1.0 over JSON-RPC": (url: string, key?: string, card?: string) => client10(url, "JSONRPC", key, card),
  "1.0 over HTTP+JSON": (url: string, key?: string, card?: string) => client10(url, "HTTP+JSON", key, card),
  "0.3 over JSON-RPC": (url: string, key?: string, card?: string) => client03(url, "JSONRPC", key, card),
  "0.3 over HTTP+JSON": (url: string, key?: string, card?: string) => client03(url, "HTTP+JSON", key, card)
}

/** Everything that a stream says. */
export const readOut = (events: AsyncGenerator<EventShown, void>): Effect.Effect<ReadonlyArray<EventShown>> =>
  Effect.promise(async () => {
    const all: Array<EventShown> = []
    for await (const event of events) all.push(event)
    return all
  })

/** The first event of which this holds. The stream goes on behind it. */
export const readUntil = (
  events: AsyncGenerator<EventShown, void>,
  holds: (event: EventShown) => boolean
): Effect.Effect<EventShown> =>
  Effect.promise(async () => {
    for (;;) {
      const next = await events.next()
      if (next.done === true) throw new Error("The stream has ended")
      if (holds(next.value)) return next.value
    }
  })
