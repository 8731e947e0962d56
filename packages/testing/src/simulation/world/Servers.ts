import { TaskId, type TaskState } from "@bowline/domain/tool/TaskState"
import { Deferred, Effect, Option, Schema, Scope } from "effect"
import * as ExchangeLog from "../../exchange/ExchangeLog.ts"
import { Fault, type Host, type HostRequest, type HostResponse, text } from "../../http/Host.ts"
import { Network } from "../../http/Network.ts"
import type { Ending } from "../../http/RequestLog.ts"
import * as ScriptedMcpServer from "../../mcp/ScriptedMcpServer.ts"
import type { ObservedCall } from "../scenario/Observed.ts"
import type { McpFault, McpServerFault } from "../scenario/Scenario.ts"
import * as Bank from "./Bank.ts"
import { replicaHeader, type Wires } from "./Wires.ts"
import type { Open, World } from "./World.ts"

interface ServerKind {
  readonly name: string
  readonly tools: ReadonlyArray<string>
  readonly inputSchema: Schema.JsonObject
}

const desk: ServerKind = {
  name: "desk",
  tools: ["note", "find"],
  inputSchema: {
    type: "object",
    properties: { key: { type: "string" }, ms: { type: "integer" } },
    required: ["key", "ms"]
  }
}

/** One whose calls pay. */
const till: ServerKind = { name: "till", tools: Bank.payments.map(({ name }) => name), inputSchema: Bank.paymentSchema }

const originOf = ({ name }: ServerKind): string => `http://${name}.test`
const toolsOf = ({ name, tools }: ServerKind): ReadonlyArray<string> => tools.map((tool) => `${name}_${tool}`)

/** The tools that plans have of MCP servers, and those that pay. */
export const mcpTools: ReadonlyArray<string> = toolsOf(desk)
export const mcpPayments: ReadonlyArray<string> = toolsOf(till)
export const isMcpTool = (tool: string): boolean => mcpTools.includes(tool) || mcpPayments.includes(tool)

/** The servers that a request names which calls these tools. */
export const serversOf = (called: ReadonlyArray<string>) =>
  [desk, till]
    .filter((kind) => toolsOf(kind).some((tool) => called.includes(tool)))
    .map((kind) => ({
      name: kind.name,
      url: `${originOf(kind)}/mcp`,
      ...(kind === till && {
        effects: Object.fromEntries(
          Bank.payments.map(({ effect, name }): [string, Schema.JsonObject] => [name, effect])
        )
      })
    }))

const Message = Schema.fromJsonString(
  Schema.Struct({
    method: Schema.String,
    params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  })
)
const decodeMessage = Schema.decodeUnknownOption(Message)

const Call = Schema.Struct({
  name: Schema.String,
  arguments: Schema.StructWithRest(Schema.Struct({ key: Schema.String, ms: Schema.Number }), [
    Schema.Record(Schema.String, Schema.Json)
  ]),
  _meta: Schema.Struct({ "bowline/task_id": Schema.String, "bowline/idempotency_key": Schema.String })
})
const decodeCall = Schema.decodeUnknownOption(Call)
type Call = typeof Call.Type

const planOf = (key: string): string => key.split("/")[0] ?? ""

/** The number of a call in its session. */
const numberOf = ({ headers }: HostRequest, id: unknown): string => `${headers["mcp-session-id"] ?? ""}/${String(id)}`

/** The server knows its calls by their keys, and a request to cancel names one by its session and its number there. */
class ServerCalls {
  readonly #world: World
  readonly #name: string
  readonly #byNumber = new Map<string, Open<ObservedCall>>()

  constructor(world: World, name: string) {
    this.#world = world
    this.#name = name
  }

  came(
    { _meta, arguments: input, name: tool }: Call,
    number: string,
    replica: string,
    fault: McpFault | undefined
  ): void {
    const { key, ms } = input
    const name = this.#name
    const plan = planOf(key)
    const began = this.#world.moment()
    const order = Bank.orderOf(input)
    const payment = { key: _meta["bowline/idempotency_key"], isRefused: fault?._tag === "Fail" }
    const call: Open<ObservedCall> = {
      ...(order !== undefined && { payment: { order, ...payment } }),
      key,
      plan,
      task_id: TaskId.make(_meta["bowline/task_id"]),
      tool: `${name}_${tool}`,
      isIdempotent: false,
      isFree: false,
      ms,
      result: { state: endOf(fault), content: `did ${key}` },
      replica: "",
      began,
      ended: undefined,
      cancels: [],
      remote_task_id: null,
      named: { ...began, replica }
    }
    this.#world.calls.push(call)
    this.#byNumber.set(number, call)
    this.#world.tell(name, plan, `gets ${tool} ${key}`)
    // So long the server has to do with it, unless it is cancelled.
    this.#world.loop.after(ms + lateBy(fault), () => (call.ended ??= this.#world.moment()))
  }

  /** The network takes the answer to a call. */
  reset({ body }: HostRequest, replica: string): void {
    const message = decodeMessage(body)
    const call = Option.flatMap(message, ({ method, params }) =>
      method === "tools/call" ? decodeCall(params) : Option.none()
    )
    if (Option.isNone(call)) return
    const { key } = call.value.arguments
    this.#world.resets.push({ ...this.#world.moment(), replica, plan: planOf(key), call: key })
  }

  /** The call that a request cancels. */
  cancelledBy(request: HostRequest): Open<ObservedCall> | undefined {
    const message = decodeMessage(request.body)
    if (Option.isNone(message) || message.value.method !== "notifications/cancelled") return undefined
    return this.#byNumber.get(numberOf(request, message.value.params?.["requestId"]))
  }
}

const standingOf = ({ standing }: World, does: McpServerFault) =>
  Array.from(standing).find((fault) => fault._tag === "McpServer" && fault.does === does)

/** How much longer the server works at a call that it does not answer in time, unless it is cancelled; in milliseconds. */
const longer = 8_000

const lateBy = (fault: McpFault | undefined): number =>
  fault?._tag === "Silent" || fault?._tag === "Late" ? longer : 0

/** How a call ends that the server gets, if its answer arrives. */
const endOf = (fault: McpFault | undefined): TaskState =>
  fault?._tag === "Fail" || fault?._tag === "Garbled" ? "failed" : "completed"

/** What becomes of the answer to a call. */
const spoil = (answer: HostResponse, fault: McpFault | undefined): Effect.Effect<HostResponse, Fault> => {
  switch (fault?._tag) {
    case "Silent":
      return Effect.never
    case "Late":
      return Effect.as(Effect.sleep(fault.ms), answer)
    case "Break":
      return Effect.fail(new Fault({ kind: fault.kind }))
    default:
      return Effect.succeed(answer)
  }
}

const serveOne = (
  kind: ServerKind,
  world: World,
  wires: Wires,
  faultOf: (key: string) => McpFault | undefined
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { inputSchema, name, tools } = kind
    const origin = originOf(kind)
    const calls = new ServerCalls(world, name)
    const served = yield* Deferred.make<Host>()
    const network = Network.of({
      serve: Effect.fnUntraced(function* (host) {
        yield* Deferred.succeed(served, host)
        return { url: origin, requests: yield* ExchangeLog.make<HostRequest, Ending>() }
      })
    })
    const script: ScriptedMcpServer.McpScript = {
      list: () => {
        const description = standingOf(world, "changes its tools") === undefined ? "Does it" : "Does it otherwise"
        return { tools: tools.map((name) => ({ name, description, inputSchema })) }
      },
      call: (request, sent) =>
        Effect.gen(function* () {
          const given = decodeCall(request.params)
          if (Option.isNone(given)) return text(400, "no call")
          const { key, ms } = given.value.arguments
          const fault = faultOf(key)
          if (fault?._tag === "Refuse") return text(fault.status, "refused")
          calls.came(given.value, numberOf(sent, request.id), sent.headers[replicaHeader] ?? "", fault)
          yield* Effect.sleep(ms)
          const content = fault?._tag === "Garbled" ? "?" : [{ type: "text", text: `did ${key}` }]
          const result = { content, isError: fault?._tag === "Fail" }
          const answer =
            standingOf(world, "changes its tools") === undefined
              ? ScriptedMcpServer.result(request, result)
              : ScriptedMcpServer.announced(request, result, 1)
          return yield* spoil(answer, fault)
        })
    }
    const server = yield* ScriptedMcpServer.serve(script).pipe(
      Effect.provideService(Network, network),
      Effect.provideService(Scope.Scope, Scope.makeUnsafe())
    )
    const host = yield* Deferred.await(served)
    const forgot = new WeakSet<object>()
    const troubled: Host = (request) =>
      Effect.gen(function* () {
        if (standingOf(world, "silent") !== undefined) return yield* Effect.never
        const forgets = standingOf(world, "forgets")
        if (forgets !== undefined && !forgot.has(forgets)) {
          forgot.add(forgets)
          yield* server.forgetSessions
        }
        const cancelled = calls.cancelledBy(request)
        if (cancelled !== undefined && faultOf(cancelled.key)?._tag === "IgnoreCancel") return yield* Effect.never
        if (cancelled !== undefined) cancelled.ended ??= world.moment()
        return yield* host(request)
      })
    wires.serve(origin, troubled, {
      onReset: (request, replica) => calls.reset(request, replica),
      // A request to cancel counts when it leaves its replica.
      onSent: (request) => {
        const call = calls.cancelledBy(request)
        call?.cancels.push(world.moment())
        if (call !== undefined) world.tell(name, call.plan, `is told to cancel ${call.key}`)
      }
    })
  })

/** Serves the MCP servers of the world, with the faults of the calls that have one. */
export const serve = (
  world: World,
  wires: Wires,
  faultOf: (key: string) => McpFault | undefined
): Effect.Effect<void> =>
  Effect.forEach([desk, till], (kind) => serveOne(kind, world, wires, faultOf), { discard: true })
