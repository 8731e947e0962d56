import type { MessagePart, ToolResultPart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Clock, Duration, Effect, Fiber, Option, type Schema } from "effect"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PeerEvent } from "../peer/PeerClient.ts"
import * as Envelope from "../tool/Envelope.ts"
import type { AgentDid, Tool, ToolResult } from "../tool/Tool.ts"
import { truncate } from "../tool/Envelope.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Prepared } from "./PreparedCalls.ts"

const concurrency = 8

/** How long a peer is asked at most for a task whose time was over before another process came to it. */
const lastLook = 10_000

const maxRawInput = 2_048

const shownInput = (input: Schema.Json): Schema.Json =>
  typeof input === "string" && input.length > maxRawInput ? `${input.slice(0, maxRawInput)}…` : input

/** Tells that a task has started; for one that is refused that is its end, too. */
const start = (
  run: PlanRun,
  prepared: Exclude<Prepared, { readonly _tag: "Begun" }>,
  did: AgentDid | null,
  now: number
): void => {
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
  run.tasks.set(part.task_id, {
    tool: part.tool,
    agent: tool?.agent ?? null,
    endpoint: tool?.endpoint ?? null,
    startedAt: now,
    isIdempotent: tool?.isIdempotent ?? false,
    isInherited: false,
    remote_task_id: null,
    remote_context_id: null,
    isKnown: () => false
  })
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

/** What a call tells on its way. What was `told` of it by another process is not told again. */
const onEvent = (run: PlanRun, task_id: TaskId, limit: number, told: Set<string>) => {
  const emit = (event: Extract<PlanEvent, { readonly event: "task.progress" | "task.artifact" }>): void => {
    if (!told.delete(JSON.stringify(event.data))) run.given.journal.emit(event)
  }
  const take = (event: PeerEvent): void => {
    switch (event._tag) {
      case "Accepted": {
        const task = run.tasks.get(task_id)
        if (task === undefined) return
        const remote = { remote_task_id: event.remoteTaskId, remote_context_id: event.remoteContextId }
        run.given.journal.append([{ _tag: "TaskAccepted", task_id, ...remote }], [])
        Object.assign(task, remote)
        task.isKnown = run.given.journal.mark()
        return
      }
      case "Progress": {
        const message = event.message === undefined ? {} : { message: event.message }
        return emit({ event: "task.progress", data: { task_id, state: event.state, ...message } })
      }
      case "Artifact": {
        const text = typeof event.content === "string" ? event.content : JSON.stringify(event.content)
        const cut = truncate(text, limit)
        const { mediaType: media_type, verified } = event
        const content = cut.truncated ? cut.text : event.content
        return emit({
          event: "task.artifact",
          data: { task_id, content, media_type, truncated: cut.truncated, verified }
        })
      }
    }
  }
  return (event: PeerEvent) =>
    Effect.andThen(
      Effect.sync(() => take(event)),
      Effect.ignore(run.given.journal.keepUp)
    )
}

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
    prepared._tag === "Refused"
      ? Effect.succeed(null)
      : Effect.map(Effect.timeoutOption(prepared.tool.identify, limitOf(prepared.tool)), Option.getOrNull)

  const dispatch = Effect.fnUntraced(function* (
    prepared: Extract<Prepared, { readonly _tag: "Ready" | "Begun" }>,
    did: AgentDid | null,
    since: number
  ) {
    const { tool, input, part } = prepared
    const spent = (yield* Clock.currentTimeMillis) - since
    // The intent is stored before the call leaves.
    yield* run.given.journal.flush
    const task = run.tasks.get(part.task_id)
    const { remote_context_id: contextId = null, remote_task_id: taskId = null } = task ?? {}
    const resumes = taskId === null ? undefined : { taskId, contextId }
    const limit = limitOf(tool)
    // What a peer has done while nobody asked is worth a look.
    const left = resumes === undefined || spent < limit ? limit - spent : Math.min(lastLook, limit)
    const told = new Set(prepared._tag === "Begun" ? run.given.resumed?.told : [])
    if (task !== undefined) task.isInherited = false
    // Detached: a tool that does not let go holds up neither the step nor the plan's end. Both exits interrupt it.
    const call = yield* Effect.forkDetach(
      tool.call({
        input,
        taskId: part.task_id,
        resumes,
        isHandedOver: () => task !== undefined && run.isHandedOver(task),
        onEvent: onEvent(run, part.task_id, options.resultLimit, told)
      }),
      { startImmediately: true }
    )
    const result = yield* Fiber.join(call).pipe(
      Effect.timeoutOption(left),
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
      if (prepared._tag === "Begun") {
        const { remote_task_id, started_at } = prepared.task
        return yield* dispatch(prepared, did, remote_task_id === null ? begun : Date.parse(started_at))
      }
      // Before it starts: what is refused is stored with its end, or not at all.
      yield* run.given.journal.keepUp
      const now = yield* Clock.currentTimeMillis
      start(run, prepared, did, now)
      if (prepared._tag === "Ready") return yield* dispatch(prepared, did, begun)
      const { state, message } = prepared
      return answer(prepared, did, { state, content: message, error: { code: state, message } }, now)
    }),
    { concurrency }
  ).pipe(run.within("tool"))
}
