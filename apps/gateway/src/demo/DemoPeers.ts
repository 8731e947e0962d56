import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import { namedDialect, ofMethod, type Operation } from "@bowline/a2a/unstable/server/Operation"
import { decodeMessage } from "@bowline/a2a/unstable/server/SentMessage"
import type { Metadata, ServedTask } from "@bowline/a2a/unstable/server/ServedTask"
import { decodeTask } from "@bowline/a2a/unstable/server/TaskQuery"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Clock, Effect, Result, Schema, type Scope } from "effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { type Binding, respond, respondFailure, rpc } from "../edge/a2a/Binding.ts"

/** A peer of the demo, as a request can name it. */
export interface DemoPeer {
  readonly name: string
  readonly endpoint: string
}

interface Behaviour {
  readonly name: string
  readonly port: number
  readonly description: string
  readonly skill: { readonly id: string; readonly name: string; readonly description: string }
  /** What a task says while it works. */
  readonly working: string
  /** How long it works, in milliseconds. */
  readonly duration: number
  /** The answer, which is the message of the task, or its artifact. */
  readonly answer: (question: string) => string
  readonly hasArtifact: boolean
}

const behaviours: ReadonlyArray<Behaviour> = [
  {
    name: "prompt",
    port: 3781,
    description: "Demo peer: answers at once.",
    skill: { id: "look_up", name: "Look up", description: "Demo: looks something up, and answers at once." },
    working: "",
    duration: 0,
    answer: (question) => `Demo answer, given at once, to: ${question}`,
    hasArtifact: false
  },
  {
    name: "slow",
    port: 3782,
    description: "Demo peer: works for two seconds, then answers with an artifact.",
    skill: { id: "research", name: "Research", description: "Demo: looks into something for two seconds." },
    working: "Demo: reading the sources",
    duration: 2_000,
    answer: (question) => `Demo report, made in two seconds, on: ${question}`,
    hasArtifact: true
  },
  {
    name: "stuck",
    port: 3783,
    description: "Demo peer: says that it is working, for ever. Cancel the plan to see it let go.",
    skill: { id: "deliberate", name: "Deliberate", description: "Demo: thinks about something and never ends." },
    working: "Demo: still thinking",
    duration: Infinity,
    answer: () => "",
    hasArtifact: false
  }
]

const toolOf = ({ name, skill }: Behaviour): string => `${name}_${skill.id}`

/** The names of the tools that the peers of the demo are. */
export const demoTools: ReadonlySet<string> = new Set(behaviours.map(toolOf))

/** The one that answers at once. */
export const promptTool = "prompt_look_up"

/** A peer keeps so many tasks, and then forgets the oldest one. */
const maxTasks = 1_000

interface Task {
  readonly id: string
  readonly contextId: string
  readonly question: string
  /** When its message came, in milliseconds since 1970. */
  readonly since: number
  canceledAt: number | undefined
}

/** Whether a task has its answer at an instant. */
const isAnswered = ({ duration }: Behaviour, { canceledAt, since }: Task, now: number): boolean =>
  (canceledAt ?? now) >= since + duration

/** A task at an instant: nothing happens to it but that time passes, and that somebody cancels it. */
const taskAt = (behaviour: Behaviour, task: Task, now: number): ServedTask => {
  const { answer, duration, hasArtifact, working } = behaviour
  const { canceledAt, contextId, id, question, since } = task
  const isOver = isAnswered(behaviour, task, now)
  const text = (text: string) => [{ _tag: "Text" as const, text }]
  const said = isOver ? (hasArtifact ? "" : answer(question)) : working
  return {
    id,
    contextId,
    status: {
      standing: isOver ? "completed" : canceledAt === undefined ? "working" : "canceled",
      timestamp: fromMillis(isOver ? since + duration : (canceledAt ?? since)),
      ...(said !== "" && {
        message: { messageId: `${id}-${isOver ? "answer" : "work"}`, role: "agent", parts: text(said) }
      })
    },
    artifacts:
      isOver && hasArtifact ? [{ artifactId: `${id}-report`, name: "report", parts: text(answer(question)) }] : [],
    history: [{ messageId: `${id}-question`, role: "user", parts: text(question) }],
    metadata: {}
  }
}

/** It streams nothing, so that callers poll it. */
const cardOf = ({ description, name, skill }: Behaviour, url: string): Metadata => ({
  name,
  description,
  version: "1.0.0",
  supportedInterfaces: [
    { url, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
    { url, protocolBinding: "JSONRPC", protocolVersion: "0.3" }
  ],
  capabilities: { streaming: false },
  defaultInputModes: ["text/plain", "application/json"],
  defaultOutputModes: ["text/plain"],
  skills: [{ ...skill, tags: ["demo"] }],
  protocolVersion: "0.3.0",
  preferredTransport: "JSONRPC",
  url
})

const RpcRequest = Schema.Struct({
  jsonrpc: Schema.Literal("2.0"),
  id: Schema.NullOr(Schema.Union([Schema.String, Schema.Finite])),
  method: Schema.String,
  params: Schema.optionalKey(Schema.Unknown)
})

const invalid = ({ message }: Schema.SchemaError): A2aError => invalidParams([{ path: "", message }])

/** Answers the calls of one peer. */
const makePeer = (behaviour: Behaviour, uuid: () => string) => {
  const tasks = new Map<string, Task>()

  const begin = (wire: Binding["wire"], params: unknown, now: number) =>
    Result.map(Result.mapError(decodeMessage[wire](params), invalid), ({ contextId, parts }) => {
      const [part] = parts
      const question = part?._tag === "Text" ? part.text : JSON.stringify(part?._tag === "Data" ? part.data : part)
      const task: Task = {
        id: uuid(),
        contextId: contextId ?? uuid(),
        question,
        since: now,
        canceledAt: undefined
      }
      tasks.set(task.id, task)
      const [oldest = ""] = tasks.keys()
      if (tasks.size > maxTasks) tasks.delete(oldest)
      return task
    })

  const find = (params: unknown) =>
    Result.flatMap(Result.mapError(decodeTask(params), invalid), ({ id }) => {
      const task = tasks.get(id)
      return task === undefined
        ? Result.fail(new A2aError({ error: "TaskNotFound", message: "There is no such task" }))
        : Result.succeed(task)
    })

  const cancel = (params: unknown, now: number) =>
    Result.flatMap(find(params), (task) => {
      if (task.canceledAt !== undefined || isAnswered(behaviour, task, now)) {
        return Result.fail(new A2aError({ error: "TaskNotCancelable", message: "The task is over" }))
      }
      task.canceledAt = now
      return Result.succeed(task)
    })

  return (operation: Operation, { json, wire }: Binding, params: unknown, now: number) => {
    const show = (task: Task) => taskAt(behaviour, task, now)
    switch (operation) {
      // Its answer comes at once, also to a client that would wait for the end.
      case "send":
        return Result.map(begin(wire, params, now), (task) => json.sent(show(task)))
      case "get":
        return Result.map(find(params), (task) => json.task(show(task)))
      case "cancel":
        return Result.map(cancel(params, now), (task) => json.task(show(task)))
      default:
        return Result.fail(new A2aError({ error: "UnsupportedOperation", message: "The demo does not do that" }))
    }
  }
}

const listen = (port: number) => NodeHttpServer.make(() => createServer(), { host: "127.0.0.1", port })

const serve = Effect.fnUntraced(function* (behaviour: Behaviour) {
  const { name, port } = behaviour
  const server = yield* Effect.catchTag(listen(port), "ServeError", () => Effect.orDie(listen(0)))
  const endpoint = `${HttpServer.formatAddress(server.address)}/`
  const perform = makePeer(behaviour, yield* UuidGenerator)

  const call = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { id, method, params = {} } = yield* HttpServerRequest.schemaBodyJson(RpcRequest)
    const named = namedDialect(request.headers["a2a-version"])
    const found = ofMethod(method, named === "unknown" ? undefined : named)
    const binding = rpc(found?.dialect ?? "0.3", id)
    if (found === undefined) {
      return respondFailure(binding, new A2aError({ error: "MethodNotFound", message: "There is no such method" }))
    }
    const result = perform(found.operation, binding, params, yield* Clock.currentTimeMillis)
    return Result.isSuccess(result) ? respond(binding, result.success) : respondFailure(binding, result.failure)
  }).pipe(Effect.orElseSucceed(() => HttpServerResponse.empty({ status: 400 })))

  yield* server.serve(
    Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
      if (method === "POST" && url === "/") return call
      const isCard = method === "GET" && url === "/.well-known/agent-card.json"
      return Effect.succeed(
        isCard ? HttpServerResponse.jsonUnsafe(cardOf(behaviour, endpoint)) : HttpServerResponse.empty({ status: 404 })
      )
    })
  )
  return { name, endpoint }
})

/**
 * Serves the three peers of the demo: one answers at once, one is slow, and one never ends. They have the same ports after a restart,
 * so that a plan can be resumed, unless something else has taken them.
 */
export const serveAll: Effect.Effect<ReadonlyArray<DemoPeer>, never, Scope.Scope> = Effect.forEach(behaviours, serve)
