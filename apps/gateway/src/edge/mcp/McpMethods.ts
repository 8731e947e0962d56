import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { isSettled } from "@bowline/domain/plan/Plan"
import { version } from "@bowline/protocol/api/Api"
import { problems } from "@bowline/protocol/unstable/api/Problem"
import { Data, Effect, Result, Struct } from "effect"
import { type Refusal, toRefused } from "../../http/Refusals.ts"
import * as Elicitation from "./Elicitation.ts"
import { type Call, describe, toolsOf } from "./GatewayTools.ts"
import { code, type Params, RpcError, type RpcRequest } from "./RpcMessage.ts"
import * as McpPrompts from "./McpPrompts.ts"
import * as McpResources from "./McpResources.ts"
import * as McpTasks from "./McpTasks.ts"
import * as PlanAnswer from "./PlanAnswer.ts"
import * as PlanCalls from "./PlanCalls.ts"
import { agreed, hasStructure, modern, type Revision, revisions, type Spoken } from "./Revision.ts"

const serverInfo = { name: "bowline", title: "Bowline", version }
const capabilities = { tools: { listChanged: false }, prompts: { listChanged: false }, resources: {} }
const modernCapabilities = { ...capabilities, extensions: { [McpTasks.extension]: {} } }
const instructions =
  "plan asks a question that the gateway's agents answer together; ask_<preset> asks some of them; the other tools call one skill of " +
  "one agent. What takes longer than wait_ms runs on: plan_result waits for it by its plan_id, and plan_cancel ends it. " +
  "Answers and files are resources, and the operator's recipes are prompts."

/** How long a client may keep what is the same for a while, in milliseconds. What a caller may use is nobody else's. */
const cached = { ttlMs: 60_000, cacheScope: "private" }

/** What changes with each plan and each file. */
const uncached = { ttlMs: 0, cacheScope: "private" }

const meta = { "io.modelcontextprotocol/serverInfo": serverInfo }

/** A result as its revision has it. */
const complete = (revision: Revision, result: object) => {
  if (revision === modern) return { resultType: "complete", ...result, _meta: meta }
  return hasStructure(revision)
    ? result
    : Struct.omit(result as { readonly structuredContent?: unknown }, ["structuredContent"])
}

const invalidParams = (message: string) => new RpcError({ code: code.invalidParams, status: 200, message })

/** The call that goes on with the plan of an earlier request, and waits as long as it says. */
const resumed = (call: Call, answered: Elicitation.Answered): Call =>
  call._tag === "Ask" || call._tag === "Result"
    ? { _tag: "Resume", wait_ms: call.wait_ms, isHandedOut: call._tag === "Result", ...answered }
    : call

/** Answers a method that reads what is there beside tools. */
type Content = (caller: CallerName, params: Params, revision: Revision) => Effect.Effect<object, Refusal | RpcError>

/** A call that may take a while. */
export class Waiting extends Data.Class<{
  readonly run: (onFrame: (frame: PlanFrame) => void) => Effect.Effect<object>
}> {}

/** What the gateway answers to the requests of MCP. */
export const make = Effect.gen(function* () {
  const calls = yield* PlanCalls.make
  const tasks = McpTasks.make(calls)
  const contents: Readonly<Record<string, Content>> = {
    ...(yield* McpPrompts.make),
    ...(yield* McpResources.make)
  }
  const tools = (caller: CallerName) => Effect.zipWith(calls.plans.presets(caller), calls.plans.skills(caller), toolsOf)

  /** Makes a call, whose arguments are good, and gives its result. */
  const run = Effect.fnUntraced(function* (
    sender: PlanCalls.Sender,
    call: Call,
    spoken: Spoken,
    onFrame: (frame: PlanFrame) => void
  ) {
    let hasFiles = false
    const { approval, isWaiting, plan } = yield* calls.run(sender, call, (frame) => {
      hasFiles ||= frame.event === "task.artifact" && frame.payload.includes('"file_id"')
      onFrame(frame)
    })
    if (approval === undefined) {
      const isHandedOut = !isSettled(plan) && (call._tag === "Ask" || call._tag === "Resume")
      if (isHandedOut && McpTasks.areWanted(spoken)) return yield* tasks.created(sender.caller, plan.plan_id)
      const files = hasFiles ? yield* calls.filesOf(sender.caller, plan.plan_id) : []
      const result = PlanAnswer.toResult(PlanAnswer.fromPlan(plan, isWaiting), files)
      // A plan that was cancelled has ended as the caller of this wants it.
      return call._tag === "Cancel" ? { ...result, isError: false } : result
    }
    // Whoever has dismissed the question is not asked it again.
    const isDismissed = call._tag === "Resume" && call.decision === undefined
    return Elicitation.canAsk(spoken.capabilities) && !isDismissed
      ? Elicitation.inputRequired(approval)
      : PlanAnswer.toResult(PlanAnswer.fromApproval(approval, plan.usage))
  })

  const refuse = (refusal: Refusal) => {
    const refused = toRefused(refusal)
    const told = Effect.succeed(PlanAnswer.fromRefused(refused))
    return refusal._tag === "StorageError"
      ? Effect.andThen(Effect.logError("storage_failed", refusal.reason.cause), told)
      : told
  }

  /** What hinders a method besides its parameters is the gateway's own trouble. */
  const refuseMethod = (refusal: Exclude<Refusal, RpcError>) => {
    const { code: name, detail } = toRefused(refusal)
    const { retryable, status } = problems[name]
    const error = new RpcError({ code: code.internal, status, message: detail, data: { code: name, retryable } })
    return refusal._tag === "StorageError"
      ? Effect.andThen(Effect.logError("storage_failed", refusal.reason.cause), Effect.fail(error))
      : Effect.fail(error)
  }

  const callTool = Effect.fnUntraced(function* (sender: PlanCalls.Sender, params: Params, spoken: Spoken) {
    const { revision } = spoken
    const { arguments: given = {}, name } = params
    if (typeof name !== "string") return yield* invalidParams("Wrong: params.name. Expected the name of a tool")
    const tool = (yield* tools(sender.caller)).find((tool) => tool.name === name)
    if (tool === undefined) {
      return yield* invalidParams(
        `There is no tool ${JSON.stringify(name.slice(0, 200))}: tools/list names those there are`
      )
    }
    const call = tool.read(given)
    if (Result.isFailure(call)) return complete(revision, PlanAnswer.fromRefused(call.failure))
    const answered = revision === modern ? Elicitation.answered(params) : undefined
    if (answered instanceof RpcError) return yield* answered
    const asked = answered === undefined ? call.success : resumed(call.success, answered)
    return new Waiting({
      run: (onFrame) =>
        run(sender, asked, spoken, onFrame).pipe(
          Effect.catch(refuse),
          Effect.map((result) => complete(revision, result))
        )
    })
  })

  const notFound = (method: string, revision: Revision) =>
    new RpcError({
      code: code.methodNotFound,
      // In the others 404 means that the session is gone: their clients would begin a new one.
      status: revision === modern ? 404 : 200,
      message: `${revision} has no method ${JSON.stringify(method.slice(0, 200))} that the gateway knows`
    })

  /** Answers a request with its result, or with a call that is still to be made. */
  const serve = (
    sender: PlanCalls.Sender,
    { method, params }: RpcRequest,
    spoken: Spoken
  ): Effect.Effect<object, RpcError> => {
    const { caller } = sender
    const { revision } = spoken
    const isModern = revision === modern
    if (method === "tools/call") return callTool(sender, params, spoken)
    if (method === "tools/list") {
      if (params["cursor"] !== undefined)
        return Effect.fail(invalidParams("Wrong: params.cursor. All tools are on the first page"))
      return Effect.map(tools(caller), (all) =>
        complete(revision, { tools: all.map((tool) => describe(tool, revision)), ...(isModern && cached) })
      )
    }
    if (isModern && method === "server/discover") {
      return Effect.succeed(
        complete(revision, { supportedVersions: revisions, capabilities: modernCapabilities, instructions, ...cached })
      )
    }
    if (!isModern && method === "ping") return Effect.succeed({})
    if (!isModern && method === "initialize") {
      const protocolVersion = agreed(params["protocolVersion"])
      return Effect.succeed({ protocolVersion, capabilities, serverInfo, instructions })
    }
    const content = Object.hasOwn(contents, method) ? contents[method] : undefined
    if (content !== undefined) {
      const kept = method.startsWith("resources/") ? uncached : cached
      return content(caller, params, revision).pipe(
        Effect.map((result) => complete(revision, { ...result, ...(isModern && method !== "prompts/get" && kept) })),
        Effect.catchIf((error) => error._tag !== "RpcError", refuseMethod)
      )
    }
    const ofTask = isModern ? tasks.serve(caller, method, params, spoken) : undefined
    if (ofTask === undefined) return Effect.fail(notFound(method, revision))
    return ofTask.pipe(
      Effect.map((result) => complete(revision, result)),
      Effect.catchIf((error) => error._tag !== "RpcError", refuseMethod)
    )
  }

  return { serve, cancelElsewhere: calls.cancelElsewhere }
})
