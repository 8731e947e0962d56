import type { MessagePart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { TaskId } from "@bowline/domain/tool/TaskId"
import { Clock, Duration, Effect, Fiber, Option, Result, type Schema } from "effect"
import { distance } from "fastest-levenshtein"
import type { PeerEvent } from "../peer/PeerClient.ts"
import * as Envelope from "../tool/Envelope.ts"
import type { AgentDid, Tool, ToolInput, ToolResult } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { truncate } from "../tool/Truncate.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { ToolCall } from "./Assembly.ts"

const concurrency = 8

/** A call before it is made: what it will be, or why it will not. */
export type Prepared = { readonly part: ToolCallPart } & (
  | { readonly _tag: "Ready"; readonly tool: Tool; readonly input: ToolInput }
  | {
      readonly _tag: "Refused"
      readonly tool: Tool | undefined
      readonly state: "invalid" | "rejected"
      readonly input: Schema.Json
      readonly message: string
    }
)

const unknownTool = (name: string, tools: ReadonlyMap<string, Tool>): string => {
  const start = name.slice(0, 200)
  const near = Array.from(tools.keys())
    .sort((a, b) => distance(start, a) - distance(start, b))
    .slice(0, 3)
  return `There is no tool ${JSON.stringify(start)}${near.length === 0 ? "" : `. The nearest: ${near.join(", ")}`}`
}

/** Looks up and checks the calls of a step, of which at most `budget` may be made. */
export const prepare = (
  calls: ReadonlyArray<ToolCall>,
  tools: ReadonlyMap<string, Tool>,
  budget: number,
  uuid: () => string
): ReadonlyArray<Prepared> =>
  calls.map((call, index): Prepared => {
    const tool = tools.get(call.name)
    const input = ToolSchema.parseInput(tool?.inputSchema ?? {}, call.arguments)
    const isObject = Result.isSuccess(input) || typeof input.failure.input !== "string"
    const shown = Result.isSuccess(input) ? input.success : input.failure.input
    const part: ToolCallPart = {
      type: "tool_call",
      task_id: TaskId.make(uuid()),
      tool: ToolName.legal(call.name),
      input: typeof shown === "string" ? {} : shown,
      ...(isObject ? {} : { raw_input: call.arguments })
    }
    const refused = (state: "invalid" | "rejected", message: string): Prepared => ({
      _tag: "Refused",
      part,
      tool,
      state,
      input: shown,
      message
    })
    if (tool === undefined) return refused("invalid", unknownTool(call.name, tools))
    if (Result.isFailure(input)) return refused("invalid", input.failure.message)
    if (index >= budget)
      return refused("rejected", "No more tool calls may be made in this plan. Answer with what you have.")
    return { _tag: "Ready", part, tool, input: input.success }
  })

const maxRawInput = 2_048

const shownInput = (input: Schema.Json): Schema.Json =>
  typeof input === "string" && input.length > maxRawInput ? `${input.slice(0, maxRawInput)}…` : input

/** Tells that a task has started; for one that is refused that is its end, too. */
const start = (run: PlanRun, prepared: Prepared, did: AgentDid | null, now: number): void => {
  const { part, tool } = prepared
  const input: Schema.Json = prepared._tag === "Ready" ? prepared.input : shownInput(prepared.input)
  const fact = {
    task_id: part.task_id,
    tool: part.tool,
    kind: tool?.kind ?? "local",
    agent: tool?.agent ?? null,
    skill: tool?.skill ?? null,
    input
  }
  run.tasks.set(part.task_id, { tool: part.tool, startedAt: now, remoteTaskId: null, remoteContextId: null })
  run.given.journal.append(
    [
      {
        _tag: "TaskStarted",
        ...fact,
        endpoint: tool?.endpoint ?? null,
        state: prepared._tag === "Ready" ? "running" : prepared.state,
        at: fromMillis(now)
      },
      { _tag: "Progressed", stage: "tool", progress: run.progress }
    ],
    [{ event: "task.started", data: { ...fact, agent_did: did?.did ?? null, agent_did_source: did?.source ?? null } }]
  )
}

const onEvent = (run: PlanRun, task_id: TaskId, limit: number) => (event: PeerEvent) =>
  Effect.sync(() => {
    const { journal } = run.given
    switch (event._tag) {
      case "Accepted": {
        const task = run.tasks.get(task_id)
        if (task === undefined) return
        task.remoteTaskId = event.remoteTaskId
        task.remoteContextId = event.remoteContextId
        const remote = { remote_task_id: event.remoteTaskId, remote_context_id: event.remoteContextId }
        return journal.append([{ _tag: "TaskAccepted", task_id, ...remote }], [])
      }
      case "Progress": {
        const message = event.message === undefined ? {} : { message: event.message }
        return journal.emit({ event: "task.progress", data: { task_id, state: event.state, ...message } })
      }
      case "Artifact": {
        const text = typeof event.content === "string" ? event.content : JSON.stringify(event.content)
        const cut = truncate(text, limit)
        const content = cut.truncated ? cut.text : event.content
        const data = {
          task_id,
          content,
          media_type: event.mediaType,
          truncated: cut.truncated,
          verified: event.verified
        }
        return journal.emit({ event: "task.artifact", data })
      }
    }
  }).pipe(Effect.andThen(Effect.ignore(run.given.journal.keepUp)))

const timedOut = (tool: Tool, limit: number): ToolResult => {
  const message = `${tool.name} did not finish within ${Duration.format(Duration.millis(limit))}. Whether it had an effect is unknown.`
  return { state: "timed-out", content: message, error: { code: "timeout", message } }
}

/** Makes the calls of a step side by side. The results stand in the order of the calls. */
export const runAll = (
  run: PlanRun,
  calls: ReadonlyArray<Prepared>,
  options: { readonly delimiter: string; readonly resultLimit: number }
): Effect.Effect<ReadonlyArray<MessagePart>, StorageError> => {
  const answer = (prepared: Prepared, did: AgentDid | null, result: ToolResult, now: number): ToolResultPart => {
    const { task_id, tool } = prepared.part
    const { text } = truncate(result.content, options.resultLimit)
    const isRemote = prepared.tool?.kind === "peer" || prepared.tool?.kind === "mcp"
    const { verified = "unknown", note } = result
    const source = { tool, agent: prepared.tool?.agent ?? null, did: did?.did ?? null, verified }
    const said = isRemote ? Envelope.wrap(options.delimiter, source, text) : text
    const content = note === undefined ? said : `${said}\n${note}`
    run.finishTask(task_id, { ...result, result: result.content }, content, now)
    return { type: "tool_result", task_id, state: result.state, content }
  }

  const limitOf = ({ timeoutMs = Infinity }: Tool): number =>
    Math.min(timeoutMs, run.given.request.preferences.tool_timeout_ms)

  /** Only of a call that is made: it may have to ask the agent, which counts as a part of the call. */
  const identify = (prepared: Prepared): Effect.Effect<AgentDid | null> =>
    prepared._tag === "Ready"
      ? Effect.map(Effect.timeoutOption(prepared.tool.identify, limitOf(prepared.tool)), Option.getOrNull)
      : Effect.succeed(null)

  const dispatch = Effect.fnUntraced(function* (
    prepared: Extract<Prepared, { readonly _tag: "Ready" }>,
    did: AgentDid | null,
    spent: number
  ) {
    const { tool, input, part } = prepared
    // The intent is stored before the call leaves.
    yield* run.given.journal.flush
    const limit = limitOf(tool)
    // Detached: a tool that does not let go holds up neither the step nor the plan's end. Both exits interrupt it.
    const call = yield* Effect.forkDetach(
      tool.call(input, part.task_id, onEvent(run, part.task_id, options.resultLimit))
    )
    const result = yield* Fiber.join(call).pipe(
      Effect.timeoutOption(limit - spent),
      Effect.onInterrupt(() => Fiber.interrupt(call))
    )
    if (Option.isNone(result)) call.interruptUnsafe()
    return answer(
      prepared,
      did,
      Option.getOrElse(result, () => timedOut(tool, limit)),
      yield* Clock.currentTimeMillis
    )
  })

  return Effect.forEach(
    calls,
    Effect.fnUntraced(function* (prepared) {
      const begun = yield* Clock.currentTimeMillis
      const did = yield* identify(prepared)
      const now = yield* Clock.currentTimeMillis
      start(run, prepared, did, now)
      if (prepared._tag === "Ready") return yield* dispatch(prepared, did, now - begun)
      yield* run.given.journal.keepUp
      const { state, message } = prepared
      return answer(prepared, did, { state, content: message, error: { code: state, message } }, now)
    }),
    { concurrency }
  ).pipe(run.within("tool"))
}
