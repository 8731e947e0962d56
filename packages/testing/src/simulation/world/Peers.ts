import type { Dialect } from "@bowline/domain/peer/Agent"
import { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { Deferred, Effect, Option, Schema, Scope, Stream } from "effect"
import * as ExchangeLog from "../../exchange/ExchangeLog.ts"
import { Fault, type Host, type HostRequest, type HostResponse, json, text } from "../../http/Host.ts"
import { Network } from "../../http/Network.ts"
import type { Ending } from "../../http/RequestLog.ts"
import { type Act, becomes, completes, fails, produces, says, stuck, works } from "../../peer/Act.ts"
import { cardOf, cardPath } from "../../peer/internal/ScriptedCard.ts"
import * as ScriptedPeer from "../../peer/ScriptedPeer.ts"
import type { ReceivedSend } from "../../peer/Seen.ts"
import type { ObservedCall } from "../scenario/Observed.ts"
import type { PeerFault } from "../scenario/Scenario.ts"
import * as Bank from "./Bank.ts"
import type { Watch, Wires } from "./Wires.ts"
import type { Open, World } from "./World.ts"

const skills = [{ id: "ask" }, { id: "again", idempotent: true }]

interface PeerKind {
  readonly name: string
  readonly dialect: Dialect
  readonly streams: boolean
  readonly path?: string
}

const kinds: ReadonlyArray<PeerKind> = [
  { name: "one", dialect: "a2a-1.0", streams: true },
  { name: "three", dialect: "a2a-0.3", streams: false },
  { name: "bindu", dialect: "bindu", streams: false }
]

/** A peer of which only its card says how to speak to it: it has two dialects. */
const carded = {
  name: "auto",
  first: { name: "auto", dialect: "a2a-1.0", streams: true, path: "/v1" },
  other: { name: "auto", dialect: "a2a-0.3", streams: false }
} satisfies { readonly name: string; readonly first: PeerKind; readonly other: PeerKind }

const originOf = ({ name }: Pick<PeerKind, "name">): string => `http://${name}.test`

/** What agents do for money. */
const payments = Bank.payments.map(({ effect, isIdempotent, name }) => ({
  id: name,
  input_schema: Bank.paymentSchema,
  effect,
  idempotent: isIdempotent
}))

/** The agents that a request names, and the tools that a plan has of them. */
const agents = [
  ...kinds.map((kind) => ({
    name: kind.name,
    endpoint: `${originOf(kind)}/`,
    dialect: kind.dialect,
    streaming: kind.streams,
    skills
  })),
  { name: carded.name, endpoint: `${originOf(carded)}/`, dialect: "auto", skills }
]
const toolsWith = (skills: ReadonlyArray<{ readonly id: string }>): ReadonlyArray<string> =>
  agents.flatMap(({ name }) => skills.map(({ id }) => `${name}_${id}`))
export const peerTools: ReadonlyArray<string> = toolsWith(skills)
export const peerPayments: ReadonlyArray<string> = toolsWith(payments)
export const isPeerTool = (tool: string): boolean => peerTools.includes(tool) || peerPayments.includes(tool)

/** The agents of a request that calls these tools. Only one that pays knows of the skills with which it does. */
export const agentsOf = (called: ReadonlyArray<string>) =>
  called.some((tool) => isPeerTool(tool))
    ? agents.map((agent) => {
        const paying = payments.filter(({ id }) => called.includes(`${agent.name}_${id}`))
        return { ...agent, skills: [...agent.skills, ...paying] }
      })
    : []

const Input = Schema.StructWithRest(Schema.Struct({ key: Schema.String, ms: Schema.Number }), [
  Schema.Record(Schema.String, Schema.Json)
])
const decodeText = Schema.decodeUnknownOption(Schema.fromJsonString(Input))
const decodeData = Schema.decodeUnknownOption(Input)

const Request = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.Union([Schema.String, Schema.Number]),
    method: Schema.String,
    params: Schema.Record(Schema.String, Schema.Json)
  })
)
const decodeRequest = Schema.decodeUnknownOption(Request)

/** The text or the data of a message is the arguments of the call. */
const inputOf = ({ message: { parts } }: Pick<ReceivedSend, "message">): typeof Input.Type => {
  const [part] = parts
  const input =
    part?.kind === "text" ? decodeText(part.text) : part?.kind === "data" ? decodeData(part.data) : undefined
  return Option.getOrElse(input ?? Option.none(), () => ({ key: "", ms: 0 }))
}

const skillOf = ({ message: { metadata } }: Pick<ReceivedSend, "message">): string => {
  const skill = metadata?.["skill_id"]
  return typeof skill === "string" ? skill : "ask"
}

/** What a peer does that has asked so many times before. */
const actsOf = (key: string, ms: number, fault: PeerFault | undefined, asked: number): ReadonlyArray<Act> => {
  if (fault?._tag === "Asks" && asked < fault.rounds) return [works(ms), becomes("input-required", "what now?")]
  if (fault?._tag === "Stuck") return [stuck]
  if (fault?._tag === "Fail") return [works(ms), fails("A scripted failure")]
  if (fault?._tag === "State") return [works(ms), becomes(fault.state, "what now?")]
  if (ms === 0) return [completes(`did ${key}`)]
  const artifact = produces(`did ${key}`)
  // Every second one shows what it has made, and works on.
  return [says("on it"), ...(ms % 2 === 0 ? [artifact, works(ms)] : [works(ms), artifact]), completes()]
}

/** Peers of a world know their calls by the keys in their arguments. */
class PeerCalls {
  readonly #world: World
  /** The last one of each. */
  readonly #byKey = new Map<string, Open<ObservedCall>>()
  readonly #byRemoteId = new Map<string, Open<ObservedCall>>()

  constructor(world: World) {
    this.#world = world
  }

  came(peer: string, send: ReceivedSend, fault: PeerFault | undefined): void {
    const input = inputOf(send)
    const { key, ms } = input
    const skill = skillOf(send)
    const plan = key.split("/")[0] ?? ""
    const order = Bank.orderOf(input)
    const ends = endOf(fault)
    const isRefused = fault?._tag === "Fail" || ends === "rejected"
    const payment = { key: send.headers["idempotency-key"] ?? "", isRefused }
    const call: Open<ObservedCall> = {
      ...(order !== undefined && { payment: { order, ...payment } }),
      key,
      plan,
      task_id: TaskId.make(send.message.messageId),
      tool: `${peer}_${skill}`,
      isIdempotent: skill === "again" || Bank.paymentTool(skill)?.isIdempotent === true,
      isFree: false,
      ms: fault?._tag === "Stuck" ? Infinity : ms,
      result: { state: ends, content: `did ${key}` },
      replica: "",
      began: this.#world.moment(),
      ended: undefined,
      cancels: [],
      remote_task_id: send.taskId,
      named: undefined
    }
    this.#world.calls.push(call)
    this.#byRemoteId.set(send.taskId, call)
    this.#byKey.set(key, call)
    this.#world.tell(peer, plan, `gets ${skill} ${key}`)
    if (fault?._tag !== "Stuck") this.#world.loop.after(ms, () => (call.ended ??= this.#world.moment()))
  }

  /** The task goes on with an answer. Gives the call, and how many answers it has got before. */
  goesOn({
    message: { messageId, parts },
    taskId
  }: ReceivedSend): { readonly call: Open<ObservedCall>; readonly asked: number } | undefined {
    const call = this.#byRemoteId.get(taskId)
    if (call === undefined) return undefined
    const [part] = parts
    const content = part !== undefined && "text" in part ? part.text : ""
    const { answers } = this.#world
    answers.push({ ...this.#world.moment(), task_id: call.task_id, content, message_id: messageId })
    this.#world.tell(call.tool, call.plan, `hears "${content}" for ${call.key}`)
    call.ended = undefined
    this.#world.loop.after(call.ms, () => (call.ended ??= this.#world.moment()))
    return {
      call,
      asked: new Set(answers.flatMap((one) => (one.task_id === call.task_id ? [one.message_id] : []))).size
    }
  }

  keyOf(remoteId: string): string {
    return this.#byRemoteId.get(remoteId)?.key ?? ""
  }

  /** A request to cancel counts when it leaves its replica. */
  sent({ body }: HostRequest): void {
    const rpc = decodeRequest(body)
    if (Option.isNone(rpc) || !isCancel(rpc.value.method)) return
    const call = this.#byRemoteId.get(taskIdOf(rpc.value.params))
    call?.cancels.push(this.#world.moment())
    if (call !== undefined) this.#world.tell(call.tool, call.plan, `is told to cancel ${call.key}`)
  }

  /** The answer to a message names its task. */
  heard({ body }: HostRequest, replica: string): void {
    const key = keyIn(body)
    const call = key && this.#byKey.get(key)
    if (call) call.named ??= { ...this.#world.moment(), replica }
  }

  cancelled(remoteId: string): void {
    const call = this.#byRemoteId.get(remoteId)
    if (call !== undefined) call.ended ??= this.#world.moment()
  }
}

const isTaskState = Schema.is(TaskState)

/** How a call ends that the peer gets, if the gateway learns of it. A state that nobody knows is a failure. */
const endOf = (fault: PeerFault | undefined): TaskState => {
  if (fault?._tag === "State") return isTaskState(fault.state) ? fault.state : "failed"
  return fault?._tag === "Fail" ? "failed" : "completed"
}

type FaultOf = (key: string) => PeerFault | undefined

/** The host of a scripted peer. */
const hostOf = ({ dialect, name, path, streams }: PeerKind, calls: PeerCalls, faultOf: FaultOf) =>
  Effect.gen(function* () {
    const served = yield* Deferred.make<Host>()
    const network = Network.of({
      serve: Effect.fnUntraced(function* (host) {
        yield* Deferred.succeed(served, host)
        return { url: originOf({ name }), requests: yield* ExchangeLog.make<HostRequest, Ending>() }
      })
    })
    const acts = (send: ReceivedSend) => {
      // A call may also go on with the task that a former one has left.
      const goesOn = send.continues && inputOf(send).key === "" ? calls.goesOn(send) : undefined
      if (goesOn !== undefined) {
        const { asked, call } = goesOn
        return actsOf(call.key, call.ms, faultOf(call.key), asked)
      }
      const { key, ms } = inputOf(send)
      calls.came(name, send, faultOf(key))
      return actsOf(key, ms, faultOf(key), 0)
    }
    yield* ScriptedPeer.serve({ dialect, streams, acts, ...(path !== undefined && { path }) }).pipe(
      Effect.provideService(Network, network),
      Effect.provideService(Scope.Scope, Scope.makeUnsafe())
    )
    return spoiling(yield* Deferred.await(served), calls, faultOf)
  })

const watchOf = (calls: PeerCalls): Watch => ({
  onSent: (request) => calls.sent(request),
  onHeard: (request, replica) => calls.heard(request, replica)
})

/** Soon out of date, so that its changes are noticed. */
const cardHeaders = { "cache-control": "max-age=2" }

const cardAt = (world: World, { origin }: URL): Effect.Effect<HostResponse> => {
  const becomes = Array.from(world.standing).flatMap((fault) => (fault._tag === "Card" ? [fault.becomes] : []))[0]
  world.tell(carded.name, "", `shows its card${becomes === undefined ? "" : `: ${becomes}`}`)
  if (becomes === "missing") return Effect.succeed(text(404, ""))
  if (becomes === "garbled") return Effect.succeed(text(200, "{no card"))
  const { dialect, path, streams } = becomes === "other dialect" ? { path: "/", ...carded.other } : carded.first
  const card = json(200, cardOf({ dialect, streams, url: `${origin}${path}` }, {}), cardHeaders)
  return Effect.as(Effect.sleep(becomes === "late" ? "5 seconds" : 0), card)
}

/** Serves the peers of the world, with the faults of the calls that have one. */
export const serve = (world: World, wires: Wires, faultOf: FaultOf) =>
  Effect.gen(function* () {
    for (const kind of kinds) {
      const calls = new PeerCalls(world)
      const host = yield* hostOf(kind, calls, faultOf)
      wires.serve(originOf(kind), host, watchOf(calls))
    }
    const calls = new PeerCalls(world)
    const first = yield* hostOf(carded.first, calls, faultOf)
    const other = yield* hostOf(carded.other, calls, faultOf)
    const host: Host = (request) => {
      const { method, url } = request
      if (method === "GET" && url.pathname === cardPath["a2a-1.0"]) return cardAt(world, url)
      return url.pathname === carded.first.path ? first(request) : other(request)
    }
    wires.serve(originOf(carded), host, watchOf(calls))
  })

/** The stream of an answer breaks behind what has come at once. */
const breaking = (answer: HostResponse, kind: Fault["kind"]): HostResponse =>
  answer.headers["content-type"] === "text/event-stream"
    ? { ...answer, body: Stream.concat(Stream.take(answer.body, 1), Stream.fail(new Fault({ kind }))) }
    : answer

const isSend = (method: string): boolean => /message\/s|Send/.test(method)
const isCancel = (method: string): boolean => /cancel$|^CancelTask$/.test(method)

/** The key of the call that a message brings. */
const keyIn = (body: string): string => /\\?"key\\?":\\?"([^"\\]+)/.exec(body)?.[1] ?? ""

const taskIdOf = (params: Readonly<Record<string, Schema.Json>>): string => {
  const id = params["id"] ?? params["taskId"] ?? params["task_id"]
  return typeof id === "string" ? id : ""
}

const spoiling = (host: Host, calls: PeerCalls, faultOf: (key: string) => PeerFault | undefined): Host => {
  const polled = new Map<string, number>()
  return (request) =>
    Effect.suspend((): Effect.Effect<HostResponse, Fault> => {
      const rpc = decodeRequest(request.body)
      if (Option.isNone(rpc)) return host(request)
      const { id, method, params } = rpc.value
      if (isSend(method)) {
        return spoil(host(request), faultOf(keyIn(request.body)))
      }
      const remoteId = taskIdOf(params)
      const fault = faultOf(calls.keyOf(remoteId))
      if (isCancel(method)) {
        if (fault?._tag === "IgnoreCancel") return Effect.never
        calls.cancelled(remoteId)
        return host(request)
      }
      const times = (polled.get(remoteId) ?? 0) + 1
      polled.set(remoteId, times)
      if (fault?._tag === "Polls" && times <= fault.times) {
        return fault.kind === "refuse"
          ? Effect.succeed(text(503, "not now"))
          : Effect.fail(new Fault({ kind: fault.kind }))
      }
      return fault?._tag === "Vanish"
        ? Effect.succeed(json(200, { jsonrpc: "2.0", id, error: { code: -32001, message: "Task not found" } }))
        : host(request)
    })
}

/** What happens to the answer to a message. */
const spoil = (answer: Effect.Effect<HostResponse, Fault>, fault: PeerFault | undefined) => {
  switch (fault?._tag) {
    case "Silent":
      return Effect.andThen(answer, Effect.never)
    case "Late":
      return Effect.tap(answer, Effect.sleep(fault.ms))
    case "Refuse":
      return Effect.succeed(text(fault.status, "refused"))
    case "Break":
      return Effect.andThen(answer, Effect.fail(new Fault({ kind: fault.kind })))
    case "Polls":
      return Effect.map(answer, (response) => breaking(response, fault.kind === "refuse" ? "cut" : fault.kind))
    default:
      return answer
  }
}
