import { AccountRequired, Protocol } from "@bowline/domain/peer/PeerError"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import type { McpCall, McpResult } from "@bowline/runtime/remote/McpClient"
import * as TraceContext from "@bowline/runtime/unstable/telemetry/TraceContext"
import {
  CLIENT_CAPABILITIES_META_KEY,
  isInputRequiredResult,
  type CallToolResult,
  type Client,
  type Progress
} from "@modelcontextprotocol/client"
import { Effect, Option, Queue, type Schema, type Scope } from "effect"
import { toResult } from "./Content.ts"
import { capability, type Elicitations } from "./Elicitations.ts"
import { ServerFailure } from "./Failure.ts"
import * as Pending from "./PendingCall.ts"
import type { ServerTask } from "./ServerTask.ts"
import { orLeave, taskIn, tasksExtension, type ServerTaskCalls } from "./ServerTaskCalls.ts"
import type { Options, Request, Wire } from "./ServerWire.ts"

export type Meta = { readonly [key: string]: Schema.Json }

/** What the gateway tells every server that it can do. */
export const capabilities = { extensions: { [tasksExtension]: {} } }

/** How long a server may take to hear that nobody has answered its question. */
const farewell = "5 seconds"

/** How often a call goes on that asks nothing and wants to be made again, and the pause before that. */
const maxRepeats = 10
const repeatDelay = "1 second"

/** The code of the error by which the revisions with a handshake send a person to a page before the call. */
const urlElicitationRequired = -32_042

const isSentToPages = ({ reason }: ServerFailure): boolean =>
  reason._tag === "rpc" && reason.code === urlElicitationRequired

const invalid = (message: string): ServerFailure => ServerFailure.of(new Protocol({ message }))

const over = (state: McpResult["state"], text: string) =>
  ({ _tag: "Over", result: { state, text, structured: undefined } }) as const

/** How a call ends whose server asks, and gets no answer. */
const unanswered = {
  "input-required": over("input-required", "The server asks for input before it goes on"),
  "timed-out": over("timed-out", "Nobody has answered the server in time")
}
const declined = over("failed", "The tool needs the person to visit a page of its server first, and they have declined")

const shortened = (message: string): string => message.slice(0, 500).toWellFormed()

const progressText = ({ message, progress, total }: Progress): string => {
  const count = total === undefined ? `${progress}` : `${progress}/${total}`
  return message === undefined || message === "" ? count : shortened(`${count} ${message}`)
}

/** A trace that nobody records, for a call that is a part of none. */
const unrecorded = Effect.map(UuidGenerator, (uuid) => {
  const digits = () => uuid().replaceAll("-", "")
  return `00-${digits()}-${digits().slice(16)}-00`
})

/** What has come of a request of a call: the server's result, or what it asks; or the call is over without one. */
type Said =
  | { readonly _tag: "Result"; readonly result: CallToolResult }
  | { readonly _tag: "Over"; readonly result: McpResult }
  | Pending.Pending

const toSaid = (said: CallToolResult | keyof typeof unanswered): Said =>
  typeof said === "string" ? unanswered[said] : { _tag: "Result", result: said }

const toAsked = (asked: Option.Option<Pending.Pending>): Said =>
  Option.getOrElse(asked, () => unanswered["input-required"])

/** Where the gateway lacks what it needs to act as the caller, in the middle of a call: says how the server, which has taken the call, is asked again. */
const marking = (pending: Pending.Pending) =>
  Effect.mapError((failure: ServerFailure) => {
    const { reason } = failure
    if (reason._tag !== "account_required" || reason.mark !== undefined) return failure
    const { account, found, message } = reason
    return ServerFailure.of(new AccountRequired({ account, found, message, mark: Pending.encodeMark(pending) })).taken
  })

/** One call that is being made. */
interface Calling {
  readonly call: McpCall
  readonly onStatus: (message: string) => void
  /** Makes a request of the call, with more parameters. */
  readonly request: (more: object) => Effect.Effect<Said, ServerFailure>
}

interface Parts {
  readonly client: Client
  readonly options: Options
  readonly tasks: ServerTaskCalls
  /** Where the server was told that the gateway answers, and a handshake comes first. */
  readonly elicitations: Elicitations | undefined
  readonly ask: <A>(request: Request<A>, begin: Wire["handshake"]) => Effect.Effect<A, ServerFailure>
}

/**
 * The calls of tools of one server. What a server asks in the middle of a call reaches the gateway in three ways, and somebody answers it in each of them:
 *
 *     request ──▶ result
 *       ├──elicitation/create, while the request is open──▶ answered, and the request goes on      (revisions with a handshake)
 *       ├──input_required, or an error that names pages───▶ answered, and the request is made again
 *       └──a task──▶ its result, or input_required─────────▶ answered, and the task goes on
 */
export class ServerCalls {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Makes a call, with more `meta`. The first 250 ms of its progress are told at once, then the last message of every 250 ms. */
  readonly make = Effect.fnUntraced(function* (
    this: ServerCalls,
    call: McpCall,
    onProgress: (message: string) => Effect.Effect<void>,
    meta: Meta = {}
  ): Effect.fn.Return<McpResult, ServerFailure, Scope.Scope> {
    const { resumes } = call
    const begun = resumes === undefined ? undefined : Option.getOrUndefined(Pending.read(resumes))
    if (resumes !== undefined && begun === undefined) {
      return yield* invalid("The call cannot go on: this version does not understand what the last one has left of it")
    }
    // Somebody may have changed the arguments before they were approved.
    const { input = call.input } = begun ?? {}
    const calling = yield* this.#calling({ ...call, input }, onProgress, meta)
    let said: Said = begun ?? (yield* calling.request({}))
    // What was asked has its answers.
    if (begun?.asks.length === 0) said = yield* this.#goOn(begun, begun.answers, calling)
    for (let repeats = 0; said._tag === "Pending";) {
      if (said.asks.length === 0) repeats++
      said = repeats > maxRepeats ? unanswered["input-required"] : yield* this.#answered(said, calling)
    }
    return said._tag === "Over" ? said.result : yield* this.#resultOf(said.result)
  }, Effect.scoped)

  /** Has a question answered, and goes on. */
  readonly #answered = Effect.fnUntraced(function* (
    this: ServerCalls,
    pending: Pending.Pending,
    calling: Calling
  ): Effect.fn.Return<Said, ServerFailure> {
    const { answer, isHandedOver = () => false } = calling.call
    const { redaction } = this.#parts.options
    const leave = Effect.sync(() => this.#leave(pending))
    if (answer === undefined) return yield* Effect.as(leave, unanswered["input-required"])
    if (pending.asks.length === 0) yield* Effect.sleep(repeatDelay)
    const answers = yield* Pending.answers(pending, answer, redaction).pipe(
      Effect.onInterrupt(() => (isHandedOver() ? Effect.void : leave))
    )
    if (answers === "input-required") return yield* Effect.as(leave, unanswered[answers])
    if (answers === "timed-out") {
      const told = this.#goOn(pending, Pending.cancelled(pending), calling)
      yield* Effect.ignore(Effect.timeoutOption(told, farewell))
      return yield* Effect.as(leave, unanswered[answers])
    }
    return yield* this.#goOn(pending, answers, calling)
  })

  #goOn(pending: Pending.Pending, answers: Pending.Answers, calling: Calling): Effect.Effect<Said, ServerFailure> {
    return marking(Pending.answered(pending, answers))(this.#goOnFrom(pending, answers, calling))
  }

  #goOnFrom({ way }: Pending.Pending, answers: Pending.Answers, calling: Calling): Effect.Effect<Said, ServerFailure> {
    const names = Object.keys(answers)
    switch (way._tag) {
      case "Retry":
        return Effect.mapError(
          calling.request({
            ...(names.length > 0 && { inputResponses: answers }),
            ...(way.state !== undefined && { requestState: way.state })
          }),
          ({ taken }) => taken
        )
      case "Again": {
        const isAccepted = Object.values(answers).every(({ action }) => action === "accept")
        return isAccepted ? calling.request({}) : Effect.succeed(declined)
      }
      case "Task": {
        const { taskId } = way
        const told = [...way.told, ...names]
        const telling = names.length === 0 ? Effect.void : this.#parts.tasks.tell(taskId, answers)
        return Effect.andThen(telling, this.#follow({ taskId, status: "working" }, told, calling))
      }
    }
  }

  /** Nobody goes on with the call. */
  #leave({ way }: Pending.Pending): void {
    if (way._tag === "Task") this.#parts.tasks.cancel(way.taskId)
  }

  /** Waits until a task ends, or asks something. */
  #follow(task: ServerTask, told: ReadonlyArray<string>, calling: Calling): Effect.Effect<Said, ServerFailure> {
    const { input } = calling.call
    const way = { _tag: "Task", taskId: task.taskId, told } as const
    return marking({ _tag: "Pending", input, way, asks: [], answers: {} })(this.#followTask(task, told, calling))
  }

  readonly #followTask = Effect.fnUntraced(function* (
    this: ServerCalls,
    task: ServerTask,
    told: ReadonlyArray<string>,
    { call: { answer, input }, onStatus }: Calling
  ): Effect.fn.Return<Said, ServerFailure> {
    const { client, options, tasks } = this.#parts
    const { taskId } = task
    const now = yield* tasks.follow(task, told, onStatus)
    if (now.status === "cancelled") {
      const { statusMessage = "The server has cancelled the task" } = now
      return over("canceled", options.redaction.text(statusMessage).toWellFormed())
    }
    if (now.status !== "input_required") return toSaid(yield* tasks.resultOf(now))
    const leave = Effect.sync(() => tasks.cancel(taskId))
    if (answer !== undefined && client.getProtocolEra() === "legacy") {
      // The server asks while it is asked for the result.
      const said = yield* this.#during(tasks.fetchResult(taskId), answer).pipe(orLeave(leave))
      if (typeof said === "string") yield* leave
      return toSaid(said)
    }
    const asked = Pending.ofRequests(input, { _tag: "Task", taskId, told }, now.inputRequests)
    return Option.isSome(asked) && asked.value.asks.length > 0
      ? asked.value
      : yield* Effect.as(leave, unanswered["input-required"])
  })

  /** Makes a request, and has what the server asks meanwhile answered. */
  #during(request: Effect.Effect<CallToolResult, ServerFailure>, answer: McpCall["answer"]) {
    const { elicitations } = this.#parts
    return answer === undefined || elicitations === undefined ? request : elicitations.during(request, answer)
  }

  readonly #calling = Effect.fnUntraced(function* (
    this: ServerCalls,
    call: McpCall,
    onProgress: (message: string) => Effect.Effect<void>,
    meta: Meta
  ): Effect.fn.Return<Calling, never, Scope.Scope> {
    const { answer, input, taskId, tool } = call
    const key = call.idempotencyKey ?? taskId
    const { client, options, tasks } = this.#parts
    const { redaction, wire } = options
    const progress = yield* Queue.sliding<string>(1)
    yield* Queue.take(progress).pipe(
      Effect.flatMap(onProgress),
      Effect.andThen(Effect.sleep("250 millis")),
      Effect.forever,
      Effect.forkScoped
    )
    const tell = (message: string) => void Queue.offerUnsafe(progress, redaction.text(message))
    const onStatus = (message: string) => tell(shortened(message))
    const trace = yield* TraceContext.current
    const traceparent = trace.traceparent ?? (yield* unrecorded)
    // A process that all plans share was told of no plan's answers. Each request says so for itself.
    const isModern = client.getProtocolEra() !== "legacy"
    const answers =
      answer !== undefined && isModern ? { [CLIENT_CAPABILITIES_META_KEY]: { ...capabilities, ...capability } } : {}
    const _meta = { ...meta, ...answers, traceparent, "bowline/task_id": taskId, "bowline/idempotency_key": key }

    const send = (more: object) => {
      const params = { name: tool.name, arguments: input, ...more, _meta }
      return this.#parts
        .ask<CallToolResult>(
          ({ headers, ...asked }) => {
            const request = {
              ...asked,
              headers: { ...headers, ...trace },
              onprogress: (told: Progress) => tell(progressText(told))
            }
            if (tool.needsTask === true) return tasks.begin(params, request)
            // Without its output schema: the client would compile it, and it is a stranger's.
            const toolDefinition = { name: tool.name, inputSchema: { ...tool.inputSchema, type: "object" as const } }
            return client.callTool(params, { ...request, allowInputRequired: true, toolDefinition })
          },
          () => wire.ask(key)
        )
        .pipe(Effect.onInterrupt(() => wire.close(key)))
    }
    const calling: Calling = {
      call,
      onStatus,
      request: (more) =>
        this.#during(tool.needsTask === true ? tasks.named(send(more)) : send(more), answer).pipe(
          Effect.flatMap((said): Effect.Effect<Said, ServerFailure> => {
            if (typeof said === "string") return Effect.succeed(toSaid(said))
            if (isInputRequiredResult(said)) {
              const { inputRequests, requestState: state } = said
              const way = { _tag: "Retry", ...(state !== undefined && { state }) } as const
              return Effect.succeed(toAsked(Pending.ofRequests(input, way, inputRequests)))
            }
            return Option.match(taskIn(said), {
              onNone: () => Effect.succeed(toSaid(said)),
              onSome: (task) => this.#follow(task, [], calling)
            })
          }),
          Effect.catchIf(isSentToPages, ({ reason }) =>
            Effect.succeed(toAsked(Pending.ofError(input, reason._tag === "rpc" ? reason.data : undefined)))
          )
        )
    }
    return calling
  })

  #resultOf(answer: CallToolResult): Effect.Effect<McpResult, ServerFailure> {
    const { redaction } = this.#parts.options
    const result = toResult(answer)
    if (typeof result === "string") return Effect.fail(invalid(result))
    const { files, structured, text } = result
    return Effect.succeed({
      ...result,
      ...(files !== undefined && {
        files: files.map((file) => ("data" in file ? { ...file, data: redaction.base64(file.data) } : file))
      }),
      text: redaction.text(text),
      structured: structured === undefined ? undefined : redaction.json(structured)
    })
  }
}
